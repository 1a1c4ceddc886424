// Responses that clients may ask for again, or go on from.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "host/server/json_fields.h"

namespace bonsai::server {

// Keeps the latest, as text: the oldest go where there is no more room. Any thread.
class ResponseStore {
 public:
  // In bytes; one response takes at most an eighth of them, or is not kept.
  explicit ResponseStore(size_t room) : room_(room) {}

  // `response` has an "id" and the items of its "output", which may be asked for by theirs; `conversation`: these, and
  // all items before them.
  void keep(const Json &response, const Json &conversation);
  bool drop(const std::string &id);

  std::optional<std::string> response(const std::string &id) const;
  std::optional<Json> conversation(const std::string &id) const;
  std::optional<Json> item(const std::string &id) const;

 private:
  struct Entry {
    std::string id, response, conversation;
    std::vector<std::string> items;
    size_t bytes() const { return id.size() + response.size() + conversation.size(); }
  };
  using Place = std::list<Entry>::iterator;

  void forget(Place place);

  const size_t room_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the oldest first
  size_t bytes_ = 0;
  std::unordered_map<std::string, Place> by_id_, by_item_;
};

}  // namespace bonsai::server
