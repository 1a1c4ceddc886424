#include <bonsai/engine.h>

#include <iostream>

int main(int, char **argv) {
  const bonsai::Engine engine = bonsai::Engine::load({.model = argv[1]});
  bonsai::GenerateOptions options;
  options.max_tokens = 8;
  engine.generate("Once upon a time", options,
                  [](std::string_view text) { return static_cast<bool>(std::cout << text << std::flush); });
}
