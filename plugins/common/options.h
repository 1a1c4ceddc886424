// The options of device_open, as strings from the user.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <string_view>

#include "plugins/common/failure.h"

namespace bonsai::plugin {

// Whether a later option has the key of option `i`: then that counts, whatever the value of this one is.
inline bool is_replaced(const bonsai_device_config &config, uint32_t i) {
  for (uint32_t later = i + 1; later < config.n_options; ++later)
    if (std::string_view(config.options[later]->key) == config.options[i]->key) return true;
  return false;
}

// Calls read(key, value) for each option in turn, for each key with its last value. Throws BONSAI_INVALID_ARGUMENT
// where one is malformed, before any is read.
template <class Read>
void each_option(const bonsai_device_config &config, Read &&read) {
  if (config.n_options > 0) require_pointer(config.options, "config->options");
  for (uint32_t i = 0; i < config.n_options; ++i) {
    const bonsai_option &option = checked(config.options[i], "option");
    require_pointer(option.key, "option->key");
    if (!option.value) reject("the value of option {} is NULL", option.key);
  }
  for (uint32_t i = 0; i < config.n_options; ++i) {
    const bonsai_option &option = *config.options[i];
    if (!is_replaced(config, i)) read(std::string_view(option.key), std::string_view(option.value));
  }
}

}  // namespace bonsai::plugin
