// Which tiers are tested over an emulation of their instructions.
#pragma once

namespace bonsai::cpu {

// Of a tier that the processor has itself or not. What its instructions touch of memory, AddressSanitizer sees only
// where they are emulated.
constexpr bool is_to_be_emulated([[maybe_unused]] bool is_native) {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#else
  return !is_native;
#endif
}

}  // namespace bonsai::cpu
