#include "host/speculation/speculator.h"

#include <bonsai/engine.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace bonsai::host {
namespace {

constexpr uint32_t kCompared = 4;        // tokens of a trial that no pass verifies
constexpr uint32_t kFirstPatience = 32;  // doubled each time that it was in vain
constexpr uint32_t kMostPatience = 1024;
constexpr double kHopedForDraftRatio = 0.2;  // of a drafter whose time is not known yet
constexpr double kNewShare = 0.25;           // of a measurement in what is believed

}  // namespace

Speculator::Speculator(std::vector<std::unique_ptr<Drafter>> drafters, uint32_t vocabulary) : vocabulary_(vocabulary) {
  for (std::unique_ptr<Drafter> &drafter : drafters)
    sources_.push_back({.drafter = std::move(drafter), .patience = kFirstPatience});
}

void Speculator::begin(std::span<const int32_t> text) {
  for (Source &source : sources_) source.drafter->begin(text);
}

std::span<const int32_t> Speculator::propose(uint32_t most, const PassCosts &costs) {
  most = std::min(most, DraftLength::kMost);
  for (Source &source : sources_) {
    ++source.n_silent;
    const auto evidence = most == 0 ? std::nullopt : source.drafter->evidence();
    if (!evidence) continue;
    const auto proposal = offer(source, *evidence, choose_length(source, *evidence, most, costs));
    if (proposal.empty()) continue;
    count_verified(source, proposal.size());
    return proposal;
  }
  return {};
}

std::optional<double> Speculator::chance() {
  const auto evidence = sources_.front().drafter->evidence();
  if (!evidence) return std::nullopt;
  evidence_ = *evidence;
  return sources_.front().length.acceptance(evidence_);
}

std::span<const int32_t> Speculator::propose_so_many(uint32_t length) {
  return offer(sources_.front(), evidence_, length);
}

// Where nothing is to be proposed, what is compared already is compared to its end.
std::span<const int32_t> Speculator::offer(Source &source, Drafter::Evidence evidence, uint32_t length) {
  const bool is_comparing = source.n_seen < source.trial.size();
  if (length == 0 && (is_comparing || !source.drafter->is_free())) return {};
  source.evidence = evidence;
  draft(source, length > 0 ? length : kCompared);
  if (length == 0) return {};
  source.n_silent = 0;
  return source.trial;
}

void Speculator::verified(uint32_t n) { count_verified(sources_.front(), n); }

void Speculator::count_verified(Source &source, size_t n) {
  source.n_verified = n;
  counts_.proposed += static_cast<uint32_t>(n);
}

// A drafter that takes time is not asked where it does not pay, and so cannot show that it would: it gets another
// chance from time to time.
uint32_t Speculator::choose_length(Source &source, Drafter::Evidence evidence, uint32_t most,
                                   const PassCosts &costs) const {
  const bool is_free = source.drafter->is_free();
  double draft_ratio = is_free ? 0 : kHopedForDraftRatio;
  if (source.seconds_per_token > 0 && costs.single() > 0) draft_ratio = source.seconds_per_token / costs.single();
  const uint32_t length = source.length.choose(evidence, most, costs, draft_ratio);
  if (length > 0) source.patience = kFirstPatience;
  if (length > 0 || is_free || source.n_silent < source.patience) return length;
  source.patience = std::min(2 * source.patience, kMostPatience);
  return 1;
}

void Speculator::draft(Source &source, uint32_t most) {
  source.trial.clear();
  source.n_seen = source.n_verified = 0;
  const auto start = std::chrono::steady_clock::now();
  source.drafter->propose(most, source.trial);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  if (source.trial.size() > most)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("a drafter proposed {} tokens: expected at most {}", source.trial.size(), most));
  for (const int32_t token : source.trial) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocabulary_)
      throw EngineError(
          ErrorKind::kInvalidArgument,
          fmt::format("a drafter proposed token id {}: it is outside the vocabulary of {}", token, vocabulary_));
  }
  if (source.drafter->is_free() || source.trial.empty()) return;
  learn_time(source, time.count() / static_cast<double>(source.trial.size()));
}

// After a pause a drafter has to catch up with the text first, which is no part of what a token takes.
void Speculator::learn_time(Source &source, double seconds) {
  double &known = source.seconds_per_token;
  if (source.n_silent > 1)
    known = known == 0 ? 0 : std::min(known, seconds);
  else
    known = known == 0 ? seconds : known + kNewShare * (std::min(seconds, 2 * known) - known);
}

void Speculator::came(int32_t token) {
  for (Source &source : sources_) {
    compare(source, token);
    source.drafter->append(token);
  }
}

void Speculator::compare(Source &source, int32_t token) {
  if (source.n_seen == source.trial.size()) return;
  const bool is_verified = source.n_seen < source.n_verified;
  const bool accepted = source.trial[source.n_seen++] == token;
  source.length.saw(source.evidence, accepted);
  if (accepted && is_verified) ++counts_.accepted;
  if (!accepted) source.n_seen = source.trial.size();
}

}  // namespace bonsai::host
