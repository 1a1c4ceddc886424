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
  // In bytes.
  explicit ResponseStore(size_t room) : room_(room) {}

  // What one response and its conversation take, in bytes, or they are not kept; nobody should go on from more.
  size_t most() const { return room_ / 8; }

  // `response` has an "id" and the items of its "output", which may be asked for by theirs; `conversation`: these, and
  // all items before them.
  void keep(const Json &response, const Json &conversation);
  bool drop(const std::string &id);

  // JSON.
  std::optional<std::string> response(const std::string &id) const;
  std::optional<std::string> conversation(const std::string &id) const;
  std::optional<std::string> item(const std::string &id) const;

 private:
  struct Item {
    std::string id, text;
  };
  struct Entry {
    std::string id, response, conversation;
    std::vector<Item> items;  // of the output
    size_t bytes() const;
  };
  using Place = std::list<Entry>::iterator;

  void forget(Place place);

  const size_t room_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the oldest first
  size_t bytes_ = 0;
  std::unordered_map<std::string, Place> by_id_;
  std::unordered_map<std::string, const Item *> by_item_;
};

}  // namespace bonsai::server
