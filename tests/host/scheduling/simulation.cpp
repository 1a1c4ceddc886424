#include "tests/host/scheduling/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace bonsai::host {

Scenario random_scenario(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](uint32_t from, uint32_t to) {
    return from + static_cast<uint32_t>(random() % (to - from + 1));
  };
  Scenario scenario;
  SchedulerConfig &config = scenario.config;
  config.block_size = 1u << draw(0, 3);
  config.n_blocks = draw(2, 20) * (config.block_size == 1 ? 4 : 1);
  config.context = draw(12, 80);
  config.max_sequences = draw(1, 8);
  config.batch_tokens = config.max_sequences + draw(0, 24);
  config.share_prefixes = draw(0, 7) > 0;
  config.copy_blocks = draw(0, 3) > 0;
  scenario.vocab = draw(1, 5);
  scenario.n_requests = draw(3, 20);
  scenario.arrivals_percent = draw(5, 100);
  scenario.cancel_percent = draw(0, 40);
  scenario.n_priorities = draw(0, 3) == 0 ? 3 : 1;
  scenario.guess_percent = draw(0, 1) * draw(0, 100);
  scenario.right_percent = draw(0, 100);
  scenario.score_percent = draw(0, 1) * draw(0, 100);
  config.max_outputs = draw(0, 1) * (config.max_sequences + draw(0, 12));
  return scenario;
}

Simulation::Simulation(const Scenario &scenario, uint64_t seed)
    : scenario_(scenario), random_(seed), scheduler_(scenario.config), device_(scenario.config) {
  for (uint32_t i = 0; i < 3; ++i) {
    std::vector<int32_t> prefix(draw(0, scenario.config.context / 2));
    for (int32_t &token : prefix) token = static_cast<int32_t>(draw(0, scenario_.vocab - 1));
    prefixes_.push_back(std::move(prefix));
  }
}

std::string Simulation::run() {
  while (n_arrived_ < scenario_.n_requests || !requests_.empty()) {
    if (n_arrived_ < scenario_.n_requests && (requests_.empty() || chance(scenario_.arrivals_percent))) arrive();
    cancel_some();
    if (requests_.empty()) continue;
    std::string wrong = step();
    if (wrong.empty() && scenario_.audit) wrong = check_account();
    if (!wrong.empty()) return fmt::format("step {}: {}", now_, wrong);
    ++now_;
  }
  if (scheduler_.n_running() + scheduler_.n_waiting() > 0) return "end: requests are left";
  const BlockPool &pool = scheduler_.pool();
  if (pool.n_free() + scheduler_.tree().n_blocks() != pool.size()) return "end: blocks are left that nobody uses";
  return {};
}

std::vector<int32_t> Simulation::random_prompt() {
  std::vector<int32_t> prompt = prefixes_[draw(0, 2)];
  for (uint32_t n = draw(1, 20); n > 0; --n) prompt.push_back(static_cast<int32_t>(draw(0, scenario_.vocab - 1)));
  prompt.resize(std::min<size_t>(prompt.size(), scheduler_.sequence_limit() - 1));
  return prompt;
}

void Simulation::arrive() {
  Request request;
  request.id = n_arrived_++;
  request.priority = static_cast<int32_t>(draw(0, static_cast<uint32_t>(scenario_.n_priorities) - 1));
  request.text = FakeText(random_prompt());
  request.n_prompt = request.text.tokens().size();
  request.n_new = std::min<size_t>(draw(1, 24), scheduler_.sequence_limit() - request.n_prompt);
  if (chance(scenario_.cancel_percent)) request.cancel_at = now_ + draw(0, 30);
  request.last_step = now_ + cost(request);
  for (const auto &[id, earlier] : requests_) request.last_step += cost(earlier);
  const bool is_scored = scenario_.score_percent > 0 && chance(scenario_.score_percent);
  request.logits_from = std::min<size_t>(is_scored ? draw(0, 24) : request.n_prompt, request.n_prompt - 1);
  const auto taken = scheduler_.submit(
      {request.id, request.text.tokens(), request.priority, static_cast<uint32_t>(request.logits_from)});
  if (taken) requests_.emplace(request.id, std::move(request));
}

// Steps that a request needs while it is first in rank. Then it is in every step: with half of what is left for prompts
// or more, and all outputs but one for each of the others, and with every new token, all of which may have to be
// computed again before.
uint64_t Simulation::cost(const Request &request) const {
  const SchedulerConfig &config = scenario_.config;
  const uint32_t left_for_prompts = config.batch_tokens - (config.max_sequences - 1);
  const bool is_scored = request.logits_from + 1 < request.n_prompt;
  const uint32_t outputs = std::max(config.max_outputs, config.max_sequences) - (config.max_sequences - 1);
  const uint64_t piece = std::max(1u, std::min(left_for_prompts / 2, is_scored ? outputs : left_for_prompts));
  return (request.n_prompt + request.n_new) / piece + 1 + request.n_new;
}

void Simulation::cancel_some() {
  for (auto request = requests_.begin(); request != requests_.end();) {
    if (request->second.cancel_at > now_ || !request->second.cancel_at) {
      ++request;
      continue;
    }
    scheduler_.finish(request->first);
    request = requests_.erase(request);
    ++n_cancelled_;
  }
}

std::string Simulation::step() {
  const Step planned = scheduler_.plan();
  Step step = planned;
  if (scenario_.guess_percent > 0) step = scheduler_.guess(random_guesses(planned));
  if (sabotage) sabotage(scheduler_, step);
  if (step.rows.empty()) return "nothing is planned though requests are there";
  std::string wrong = check_first_in_rank(step);
  if (wrong.empty()) wrong = check_guesses(planned, step);
  if (!wrong.empty()) return wrong;
  wrong = device_.run(step, [&](RequestId id) {
    const auto found = requests_.find(id);
    return found == requests_.end() ? nullptr : &found->second.text;
  });
  if (!wrong.empty()) return wrong;
  scheduler_.commit();
  return take_results(step);
}

// Some of those that may, in any order, more than there is place for.
std::vector<Guess> Simulation::random_guesses(const Step &step) {
  std::vector<Guess> guesses;
  const auto vocab = static_cast<int32_t>(scenario_.vocab);
  for (const Step::Row &row : step.rows) {
    if (!row.wants_next || !chance(scenario_.guess_percent)) continue;
    Guess guess{.id = row.id, .tokens = {}};
    FakeText text = requests_.at(row.id).text;
    for (uint32_t n = draw(0, 12); n > 0; --n) {
      guess.tokens.push_back(chance(scenario_.right_percent) ? text.next(vocab)
                                                             : static_cast<int32_t>(draw(0, scenario_.vocab - 1)));
      text.append(guess.tokens.back());
    }
    guesses.insert(chance(50) ? guesses.begin() : guesses.end(), std::move(guess));
  }
  return guesses;
}

std::string Simulation::check_guesses(const Step &planned, const Step &step) {
  const auto same = [](const Step::Row &a, const Step::Row &b) {
    return a.id == b.id && a.n_tokens == b.n_tokens && a.wants_next == b.wants_next;
  };
  const bool kept = std::equal(planned.rows.begin(), planned.rows.end(), step.rows.begin(), step.rows.end(), same);
  return kept ? "" : "guesses take another's place in the step";
}

std::string Simulation::take_results(const Step &step) {
  for (const Step::Row &row : step.rows) {
    n_guessed_ += row.n_guesses;
    std::string wrong = take_scores(step, row);
    if (wrong.empty() && row.wants_next) wrong = take_row(row);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

// Logits of the prompt come in its order, and none is left out.
std::string Simulation::take_scores(const Step &step, const Step::Row &row) {
  Request &request = requests_.at(row.id);
  for (uint32_t i = 0; i < row.n_scored(); ++i, ++request.logits_from, ++n_scored_) {
    const uint32_t position = step.positions[row.first_output() + i];
    if (position != request.logits_from)
      return fmt::format("request {} gets logits of position {}, expected {}", row.id, position, request.logits_from);
  }
  if (row.wants_next && request.logits_from + 1 < request.n_prompt)
    return fmt::format("request {} gets no logits of position {}", row.id, request.logits_from);
  return {};
}

// The token behind the row's last, and one more for each guess that was right.
std::string Simulation::take_row(const Step::Row &row) {
  const auto found = requests_.find(row.id);
  Request &request = found->second;
  for (uint32_t n = 0; n <= row.n_guesses; ++n) {
    const int32_t token = request.text.next(static_cast<int32_t>(scenario_.vocab));
    const bool is_right = scheduler_.append(row.id, token);
    request.text.append(token);
    n_right_ += is_right;
    if (request.text.tokens().size() == request.n_prompt + request.n_new) return end(found);
    if (!is_right) return {};
  }
  return fmt::format("request {}: more guesses are right than were made", row.id);
}

// Its text is what the fake model says when it is asked alone.
std::string Simulation::end(Requests::iterator found) {
  const Request &request = found->second;
  const auto &tokens = request.text.tokens();
  FakeText alone({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(request.n_prompt)});
  while (alone.tokens().size() < tokens.size()) alone.append(alone.next(static_cast<int32_t>(scenario_.vocab)));
  const auto kept = scheduler_.tokens(request.id);
  if (!std::equal(kept.begin(), kept.end(), alone.tokens().begin(), alone.tokens().end()))
    return fmt::format("request {} has another text than alone", request.id);
  if (scenario_.n_priorities == 1 && now_ > request.last_step)
    return fmt::format("request {} ends in step {}, expected {} at the latest", request.id, now_, request.last_step);
  scheduler_.finish(request.id);
  requests_.erase(found);
  ++n_finished_;
  return {};
}

std::string Simulation::check_first_in_rank(const Step &step) const {
  const auto first = std::max_element(requests_.begin(), requests_.end(), [](const auto &a, const auto &b) {
    return a.second.priority < b.second.priority;  // of equals the first counts
  });
  const auto is_first = [&](const Step::Row &row) { return row.id == first->first; };
  if (std::any_of(step.rows.begin(), step.rows.end(), is_first)) return {};
  return fmt::format("request {} is first in rank and not in the step", first->first);
}

// Every block has the users that it should have, and the tree's blocks hold what the tree says.
std::string Simulation::check_account() const {
  const BlockPool &pool = scheduler_.pool();
  std::vector<uint32_t> users(pool.size(), 0);
  std::string wrong;
  scheduler_.visit_tables([&](RequestId id, std::span<const uint32_t> blocks) {
    for (const uint32_t block : blocks) ++users[block];
    if (std::set<uint32_t>(blocks.begin(), blocks.end()).size() < blocks.size())
      wrong = fmt::format("request {} has a block twice", id);
    const size_t size = scenario_.config.block_size, n_tokens = scheduler_.tokens(id).size();
    if (blocks.size() > (n_tokens + size - 1) / size)
      wrong = fmt::format("request {} has {} blocks for {} tokens", id, blocks.size(), n_tokens);
  });
  scheduler_.tree().visit([&](std::span<const int32_t> tokens, uint32_t block) {
    ++users[block];
    if (!device_.holds_end(block, FakeText({tokens.begin(), tokens.end()})))
      wrong = fmt::format("block {} does not hold what the tree says", block);
  });
  uint32_t n_free = 0;
  for (uint32_t block = 0; block < pool.size(); ++block) {
    n_free += users[block] == 0;
    if (users[block] != pool.users(block))
      wrong = fmt::format("block {} has {} users, and {} are counted", block, users[block], pool.users(block));
  }
  if (wrong.empty() && n_free != pool.n_free())
    wrong = fmt::format("{} blocks are free, and {} are counted", n_free, pool.n_free());
  return wrong;
}

}  // namespace bonsai::host
