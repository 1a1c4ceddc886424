// Generations as C reads them, and the callbacks that a text goes to meanwhile.
#pragma once

#include <bonsai/bonsai.h>
#include <bonsai/chat.h>
#include <bonsai/engine.h>

#include <string_view>
#include <utility>

#include "host/c_api/outcome.h"

namespace bonsai::c_api {

// With the memory that its fields point into, until end().
const bonsai_generation *hand_over(Generation generation);
const bonsai_generation *hand_over(ChatReply reply);
void end(const bonsai_generation *generation);  // null: nothing

// Whether the caller, who may have given no callback, wants to go on.
bool pass_on(bonsai_text_fn receive, void *context, bonsai_piece piece, std::string_view text);

bonsai_piece piece_of(ChatPiece kind);

// Who asked for a text: their callback, and where the result goes.
struct Receiver {
  bonsai_text_fn call;
  void *context;
  const bonsai_generation **generation;

  bool receive(bonsai_piece piece, std::string_view text) const { return pass_on(call, context, piece, text); }
  template <class Result>
  void keep(Result result) const {
    if (generation != nullptr) *generation = hand_over(std::move(result));
  }
};

template <class Generate>
bonsai_outcome generate_text(bonsai_failure *failure, const Receiver &receiver, Generate generate) {
  if (receiver.generation != nullptr) *receiver.generation = nullptr;
  return guarded(failure, [&] {
    receiver.keep(generate([&receiver](std::string_view text) { return receiver.receive(BONSAI_PIECE_TEXT, text); }));
  });
}

}  // namespace bonsai::c_api
