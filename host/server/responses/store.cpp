#include "host/server/responses/store.h"

#include <iterator>
#include <utility>

namespace bonsai::server {
namespace {

std::string id_of(const Json &json) { return json.value("id", ""); }

std::string to_text(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

size_t ResponseStore::Entry::bytes() const {
  size_t n = id.size() + response.size() + conversation.size();
  for (const Item &item : items) n += item.id.size() + item.text.size();
  return n;
}

void ResponseStore::keep(const Json &response, const Json &conversation) {
  Entry entry{.id = id_of(response), .response = to_text(response), .conversation = to_text(conversation), .items = {}};
  for (const Json &item : response.at("output")) entry.items.push_back({id_of(item), to_text(item)});
  const std::lock_guard lock(mutex_);
  if (entry.bytes() > most()) return;
  while (bytes_ + entry.bytes() > room_) forget(entries_.begin());
  bytes_ += entry.bytes();
  entries_.push_back(std::move(entry));
  const Place place = std::prev(entries_.end());
  by_id_.emplace(place->id, place);
  for (const Item &item : place->items) by_item_.emplace(item.id, &item);
}

bool ResponseStore::drop(const std::string &id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  forget(found->second);
  return true;
}

void ResponseStore::forget(Place place) {
  for (const Item &item : place->items) by_item_.erase(item.id);
  by_id_.erase(place->id);
  bytes_ -= place->bytes();
  entries_.erase(place);
}

std::optional<std::string> ResponseStore::response(const std::string &id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second->response;
}

std::optional<std::string> ResponseStore::conversation(const std::string &id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second->conversation;
}

std::optional<std::string> ResponseStore::item(const std::string &id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_item_.find(id);
  if (found == by_item_.end()) return std::nullopt;
  return found->second->text;
}

}  // namespace bonsai::server
