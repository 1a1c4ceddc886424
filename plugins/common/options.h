// The options of device_open, as strings from the user.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <string_view>

#include "plugins/common/failure.h"

namespace bonsai::plugin {

// Calls read(key, value) for each option in turn. Throws BONSAI_INVALID_ARGUMENT where one is malformed.
template <class Read>
void each_option(const bonsai_device_config &config, Read &&read) {
  if (config.n_options > 0) require_pointer(config.options, "config->options");
  for (uint32_t i = 0; i < config.n_options; ++i) {
    const bonsai_option &option = checked(config.options[i], "option");
    require_pointer(option.key, "option->key");
    if (!option.value) reject("the value of option {} is NULL", option.key);
    read(std::string_view(option.key), std::string_view(option.value));
  }
}

}  // namespace bonsai::plugin
