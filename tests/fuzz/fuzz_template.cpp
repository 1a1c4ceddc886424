// Promise: any chat template is refused with one line or renders, within its limits, text that is UTF-8 and of which
// the template's own parts are in order.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/utf8.h"
#include "core/text/template/chat_template.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using bonsai::jinja::ChatTemplate;
using Json = nlohmann::ordered_json;

template <class T>
bool refused_readably(const bonsai::Result<T> &result) {
  if (!refused_in_one_line(result)) return false;
  require(bonsai::find_invalid_utf8(result.error().message) == std::string::npos);
  return true;
}

const Json &input() {
  static const Json variables = {{"messages",
                                  {{{"role", "user"}, {"content", " K\u00e4se <|im_end|>\n"}},
                                   {{"role", "assistant"}, {"content", nullptr}, {"n", 3}, {"x", 2.5}}}},
                                 {"tools", {{{"name", "f"}, {"deep", {1, {2, {3}}}}}}},
                                 {"add_generation_prompt", true},
                                 {"s", "a-b c"},
                                 {"l", {3, 1, 2}},
                                 {"d", {{"b", 1}, {"a", "x"}}}};
  return variables;
}

// What between them uses every part of the language.
constexpr std::string_view kSeeds[] = {
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}{% if not loop.last %}\n{% "
    "endif %}"
    "{%- else -%}none{% endfor %}{{ loop is defined }}",
    "{% macro m(a, b='x', c=a) %}[{{ a }}{{ b }}{{ c }}{{ caller() if caller }}]{% endmacro %}{{ m(1) }}{{ m(b=2, a=l) "
    "}}"
    "{% call m('y') %}z{% endcall %}",
    "{% set ns = namespace(n=0, l=[]) %}{% for i in range(5) if i is odd %}{% set ns.n = ns.n + i ** 2 %}"
    "{% set ns.l = ns.l + [i, ns.l] %}{% continue %}{% endfor %}{{ ns.n }} {{ ns.l | tojson(indent=2) }}",
    "{{ s.split('-')[0] ~ s[::-1] ~ s[1:-1] ~ s | upper ~ s.title() }}{{ s.replace('a', 'bb', 1).strip('b').rsplit() }}"
    "{{ s | indent(3, true) | replace(' ', '_') | trim }}",
    "{{ d | dictsort | list }}{{ d.items() | list }}{{ d | tojson(sort_keys=true, ensure_ascii=true) }}{{ d.get('q', "
    "1) }}"
    "{{ l | sort(reverse=true) | map('string') | join(',') }}{{ l | select('gt', 1) | list | length }}",
    "{{ 1 + 2 * 3 // 4 - 5 % 3 / 2.5 ** 2 }}{{ 1 < 2 <= 3 != 4 }}{{ 'a' in s and 1 not in l or none is none }}"
    "{{ -7 // 2 }}{{ 'x' if l else 'y' }}{{ 1e300 * 1e10 }}{{ 9223372036854775807 }}",
    "{% set b | upper %}t{{ s }}{% endset %}{{ b }}{% filter lower %}{{ b }}{% endfilter %}{% with q=1, w=s %}{{ q "
    "}}{{ w }}"
    "{% endwith %}{# c -#}  {%+ raw %} {{ x }} {% endraw %}{% generation %}g{% endgeneration %}",
    "{% for k, v in d | items %}{{ k }}{{ v }}{{ loop.cycle('p', 'q') }}{{ loop.previtem }}{% break %}{% endfor %}"
    "{{ messages | selectattr('n', 'defined') | map(attribute='x') | first | round(1) | int }}",
    "{{ '\\x41\\u00e9\\n\\'' }}{{ s is string and 3 is divisibleby 3 }}{{ missing | default('d') }}{{ (1, [2, {'a': "
    "none}]) }}"
    "{{ strftime_now('%Y-%m-%d') }}{{ l | unique | list }}{{ s.partition('-') }}{{ s.zfill(9).center }}",
    "{{ raise_exception('no ' ~ s) }}",
};

std::vector<uint8_t> seed_of(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto chat_template = ChatTemplate::parse({reinterpret_cast<const char *>(data), size});
  if (refused_readably(chat_template)) return 0;
  const Json trusted = {{"bos_token", "<s>"}};
  bonsai::jinja::RenderOptions options;
  options.now = 0;
  options.limits.steps = 100'000;
  options.limits.text_bytes = 1 << 16;
  const auto rendered = chat_template->render({.input = input(), .trusted = trusted}, options);
  if (refused_readably(rendered)) return 0;
  require(rendered->text.size() <= options.limits.text_bytes);
  require(bonsai::find_invalid_utf8(rendered->text) == std::string::npos);
  size_t end = 0;
  for (const auto &range : rendered->template_ranges) {
    require(range.begin < range.end && range.end <= rendered->text.size() && (range.begin > end || end == 0));
    end = range.end;
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.push_back(seed_of(seed));
  // As deep as is allowed, and endless: what the machine's stack has to bear.
  std::string deep = "{% macro m(x) %}{% if x %}{{ m(";
  for (int i = 0; i < 200; ++i) deep += "[";
  deep += "x";
  for (int i = 0; i < 200; ++i) deep += "]";
  seeds.push_back(seed_of(deep + ") }}{% endif %}{% endmacro %}{{ m(1) }}"));
  seeds.push_back(
      seed_of("{% macro m(x) %}{% for i in [x] if x %}{{ m(i) | upper }}{% endfor %}{% endmacro %}{{ m(1) }}"));
  return seeds;
}
