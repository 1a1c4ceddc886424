// Whoever guesses what a text goes on with, so that one pass of the model can verify several tokens at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace bonsai::host {

// A guess may be wrong at any time: it costs the model's time and never changes the text.
class Drafter {
 public:
  // How much speaks for a proposal; acceptance is counted for each of these on its own.
  enum Evidence : uint32_t { kTwoTokens, kThreeTokens, kFourTokens, kSixTokens, kTenTokens, kModel, kEvidences };

  virtual ~Drafter() = default;

  // The text that is continued from here on. Called once, before anything else.
  virtual void begin(std::span<const int32_t> text) = 0;

  // The text has grown by this token, whether it was proposed or not.
  virtual void append(int32_t token) = 0;

  // What a proposal would rest on; nullopt: there is none to make.
  virtual std::optional<Evidence> evidence() = 0;

  // Puts up to `most` tokens into the empty `tokens`: what the text may go on with. Precondition: evidence() has just
  // returned a value. May throw EngineError.
  virtual void propose(uint32_t most, std::vector<int32_t> &tokens) = 0;

  // Proposals take no time worth counting: the drafter may be asked for the sake of learning how good it is.
  virtual bool is_free() const = 0;
};

}  // namespace bonsai::host
