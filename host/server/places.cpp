#include "host/server/places.h"

#include <fmt/format.h>

#include "host/server/api_error.h"

namespace bonsai::server {

std::shared_ptr<void> Places::take(uint32_t n) {
  if (n > n_) throw ApiError(fmt::format("{} answers at once: this server takes at most {}", n, n_));
  uint32_t taken = taken_->load();
  do {
    if (taken + n > n_) throw ApiError(fmt::format("all {} {} are taken: try again later", n_, name_), 503);
  } while (!taken_->compare_exchange_weak(taken, taken + n));
  return {nullptr, [n, all = taken_](void *) { *all -= n; }};
}

}  // namespace bonsai::server
