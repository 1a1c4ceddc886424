// What Python cannot judge: provenance, the words of errors, limits, trusted variables.
#include "core/text/template/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace bonsai::jinja {
namespace {

using Json = nlohmann::ordered_json;

Result<Rendered> render(std::string_view source, const Json &input = Json::object(),
                        const Json &trusted = Json::object(), const RenderOptions &options = {}) {
  const auto chat_template = ChatTemplate::parse(source);
  if (!chat_template) return tl::unexpected(chat_template.error());
  return chat_template->render({.input = input, .trusted = trusted}, options);
}

// The output with what the template's author wrote between angle quotes.
std::string traced(std::string_view source, const Json &input = Json::object(), const Json &trusted = Json::object()) {
  const auto rendered = render(source, input, trusted);
  if (!rendered) return rendered.error().message;
  std::string out;
  size_t done = 0;
  for (const text::ByteRange &range : rendered->template_ranges) {
    out += rendered->text.substr(done, range.begin - done) + "«" +
           rendered->text.substr(range.begin, range.end - range.begin) + "»";
    done = range.end;
  }
  return out + rendered->text.substr(done);
}

std::string error_of(std::string_view source, const Json &input = Json::object(), const RenderOptions &options = {}) {
  const auto rendered = render(source, input, Json::object(), options);
  return rendered ? "rendered: " + rendered->text : rendered.error().message;
}

const Json kUser = {{"u", "user"}, {"list", {"x", "y"}}, {"tool", {{"name", "<|im_end|>"}}}, {"n", 5}};

TEST(Provenance, LiteralsAreTheTemplatesAndVariablesTheInputs) {
  EXPECT_EQ(traced("a{{ u }}b{{ 'c' }}", kUser), "«a»user«bc»");
  EXPECT_EQ(traced("{{ '<|im_' + 'end|>' }}"), "«<|im_end|>»");
  EXPECT_EQ(traced("{{ '<' + u + '>' }}{{ '<' ~ u ~ '>' }}", kUser), "«<»user«><»user«>»");
  EXPECT_EQ(traced("{{ tool.name }}{{ tool['name'] }}", kUser), "<|im_end|><|im_end|>");
  EXPECT_EQ(
      traced("{% for k in tool %}{{ k }}{% endfor %}{% for k, v in tool.items() %}{{ k }}{{ v }}{% endfor %}", kUser),
      "namename<|im_end|>");
}

TEST(Provenance, ItLastsThroughTheOperationsOnTexts) {
  const std::string set = "{% set t = ' ab' + u + 'cd ' %}";
  EXPECT_EQ(traced(set + "{{ t.strip() }}|{{ t | trim }}|{{ t.rstrip('d ') }}", kUser),
            "«ab»user«cd|ab»user«cd| ab»user«c»");
  EXPECT_EQ(traced(set + "{{ t[2:5] }}|{{ t[::-1] }}|{{ t[-3] }}", kUser), "«b»us«| dc»resu«ba |c»");
  EXPECT_EQ(traced(set + "{{ t | upper }}{{ t.title() }}", kUser), "« AB»USER«CD  Ab»user«cd »");
  EXPECT_EQ(traced("{{ ('a,' + u + ',b').split(',')[1] }}{{ ('a,' + u).split(',')[0] }}", kUser), "user«a»");
  EXPECT_EQ(traced("{{ u.replace('s', 'S') }}{{ 'u-s'.replace('u', u) }}", kUser), "u«S»eruser«-s»");
  EXPECT_EQ(traced("{{ list | join('+') }}{{ ', '.join(['a', u]) }}", kUser), "x«+»y«a, »user");
  EXPECT_EQ(traced("{{ u * 2 }}{{ 'ab' * 2 }}", kUser), "useruser«abab»");
  EXPECT_EQ(traced("{{ ('a\n' + u) | indent(2) }}", kUser), "«a»\n  user");
  EXPECT_EQ(traced("{{ u | default('d') }}{{ missing | default('d') }}{{ list | map('upper') | first }}", kUser),
            "user«d»X");
}

TEST(Provenance, ItLastsThroughFormats) {
  EXPECT_EQ(traced("{{ '<%s|%6s>' % (u, 'b') }}", kUser), "«<»user«|»     «b>»");
  EXPECT_EQ(traced("{{ '<{}|{:>6}>'.format(u, 'b') }}{{ '{:é<2}'.format(u[0]) }}", kUser), "«<»user«|»     «b>»u«é»");
  EXPECT_EQ(traced("{{ '%d{}' % n }}{{ '{:03}'.format(n) }}{{ '<%s>' | format(u) }}", kUser), "5«{}»005«<»user«>»");
}

TEST(Provenance, ItLastsThroughMacrosAndBlocks) {
  EXPECT_EQ(traced("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(u) }}{{ m('t') }}", kUser), "«<»user«><t>»");
  EXPECT_EQ(traced("{% set b %}<{{ u }}>{% endset %}{{ b }}{% filter upper %}a{{ u }}{% endfilter %}", kUser),
            "«<»user«>A»USER");
  EXPECT_EQ(
      traced("{% set ns = namespace(v='') %}{% for i in list %}{% set ns.v = ns.v + '-' + i %}{% endfor %}{{ ns.v }}",
             kUser),
      "«-»x«-»y");
}

TEST(Provenance, WhatIsComputedCountsAsInput) {
  EXPECT_EQ(traced("{{ tool | tojson }}{{ 'lit' | tojson }}", kUser), R"({"name": "<|im_end|>"}"lit")");
  EXPECT_EQ(traced("{{ n }}{{ 1 }}{{ ['<|im_end|>'] }}{{ '<' | escape }}", kUser), "51['<|im_end|>']&lt;");
}

TEST(Provenance, TrustedVariablesCountAsTheTemplates) {
  EXPECT_EQ(traced("{{ bos_token }}{{ u }}", kUser, {{"bos_token", "<s>"}}), "«<s>»user");
  // An input of the same name does not become trusted.
  EXPECT_EQ(traced("{{ bos_token }}", {{"bos_token", "mine"}}, {{"bos_token", "<s>"}}), "«<s>»");
}

TEST(TemplateErrors, SyntaxErrorsNameLineAndExpectation) {
  EXPECT_EQ(error_of("a\n\n{% if x %}"), "line 3: 'if' is never closed: expected '{% endif %}'");
  EXPECT_EQ(error_of("{% for x in y %}\n{% endif %}"), "line 2: 'endif' does not close 'for' of line 1");
  EXPECT_EQ(error_of("\n{% endif %}"), "line 2: 'endif' closes nothing");
  EXPECT_EQ(error_of("{% include 'x' %}"), "line 1: the tag 'include' is not available in chat templates");
  EXPECT_EQ(error_of("{{ 1 + }}"), "line 1: expected an expression, found '}}'");
  EXPECT_EQ(error_of("{{ x y }}"), "line 1: expected '}}', found 'y'");
  EXPECT_EQ(error_of("{{ x\n| frobnicate }}"), "line 2: there is no filter 'frobnicate'");
  EXPECT_EQ(error_of("{{ x is nice }}"), "line 1: there is no test 'nice'");
  EXPECT_EQ(error_of("{{ (1, 2] }}"), "line 1: unexpected ']'; expected ')'");
  EXPECT_EQ(error_of("{{ x ) }}"), "line 1: unexpected ')'");
  EXPECT_EQ(error_of("{{ x\n"), "line 1: the tag is never closed: expected '}}'");
  EXPECT_EQ(error_of("{# x"), "line 1: the comment is never closed: expected '#}'");
  EXPECT_EQ(error_of("{% raw %}"), "line 1: 'raw' is never closed: expected '{% endraw %}'");
  EXPECT_EQ(error_of("{{ 'abc }}"), "line 1: the string is never closed");
  EXPECT_EQ(error_of("{{ a ? b }}"), "line 1: unexpected character '?'");
  EXPECT_EQ(error_of("{{ é }}"), "line 1: unexpected character 'é'");
  EXPECT_EQ(error_of("{{ 99999999999999999999 }}"), "line 1: the number 99999999999999999999 exceeds 64 bits");
  EXPECT_EQ(error_of("{{ 0x }}"), "line 1: '0x' is no number");
  EXPECT_EQ(error_of("{{ 1__0 }}"), "line 1: '1__0' is no number");
  EXPECT_EQ(error_of("{{ x is odd is even }}"), "line 1: tests cannot be chained; expected parentheses");
  EXPECT_EQ(error_of("{{ '\\ud800' }}"), "line 1: the escape '\\ud800' stands for no character");
  EXPECT_EQ(error_of("{% set true = 1 %}"), "line 1: cannot assign to 'true'");
  EXPECT_EQ(error_of("{% break %}"), "line 1: 'break' outside of a loop");
  EXPECT_EQ(error_of("{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}"),
            "line 1: 'continue' outside of a loop");
  EXPECT_EQ(error_of("{% for x in y recursive %}{% endfor %}"),
            "line 1: 'recursive' is not supported in chat templates");
  EXPECT_EQ(error_of("{{ f(*x) }}"), "line 1: arguments with '*' are not supported in chat templates");
  EXPECT_EQ(error_of("{{ f(a=1, 2) }}"), "line 1: an argument without a name follows one with a name");
  EXPECT_EQ(error_of("{% macro m(a=1, b) %}{% endmacro %}"),
            "line 1: a parameter without a default follows one with a default");
  EXPECT_EQ(error_of("{% call x %}{% endcall %}"), "line 1: 'call' without a call");
  EXPECT_EQ(error_of("a\xff"), "the template is not UTF-8 at byte offset 1");
}

TEST(TemplateErrors, RunTimeErrorsNameLineAndReason) {
  EXPECT_EQ(error_of("a\n{{ x.y }}"), "line 2: 'x' is undefined");
  EXPECT_EQ(error_of("{{ d.a.b }}", {{"d", {{"c", 1}}}}), "line 1: mapping has no 'a'");
  EXPECT_EQ(error_of("{{ l[3].x }}", {{"l", {1}}}), "line 1: list has no element 3");
  EXPECT_EQ(error_of("{{ 'a'.nope() }}"), "line 1: string has no 'nope'");
  EXPECT_EQ(error_of("{{ 1 + 'a' }}"), "line 1: cannot use '+' between integer and string");
  EXPECT_EQ(error_of("{{ none + 'a' }}"), "line 1: cannot use '+' between none and string");
  EXPECT_EQ(error_of("{{ 1 < 'a' }}"), "line 1: cannot use '<' between integer and string");
  EXPECT_EQ(error_of("{{ 1 in 'a' }}"), "line 1: 'in' a string: expected a string, found integer");
  EXPECT_EQ(error_of("{{ 1 // 0 }}"), "line 1: division by zero");
  EXPECT_EQ(error_of("{{ 2 ** 63 }}"), "line 1: an integer exceeds 64 bits");
  EXPECT_EQ(error_of("{{ [1](2) }}"), "line 1: list cannot be called");
  EXPECT_EQ(error_of("{% for x in 5 %}{% endfor %}"), "line 1: cannot walk over integer");
  EXPECT_EQ(error_of("{% set a, b = [1] %}"), "line 1: cannot assign 1 values to 2 names");
  EXPECT_EQ(error_of("{% set d = {} %}{% set d.x = 1 %}"), "line 1: cannot set 'd.x': 'd' is mapping, not a namespace");
  EXPECT_EQ(error_of("{{ [1].append(2) }}"),
            "line 1: method 'append': would change its object, which chat templates cannot");
  EXPECT_EQ(error_of("{{ 5 | length }}"), "line 1: filter 'length': integer has no length");
  EXPECT_EQ(error_of("{{ [2, 'a', 1] | sort }}"), "line 1: filter 'sort': cannot compare string with integer");
  EXPECT_EQ(error_of("{{ [(1, 'a'), (2, 'x'), (2, 3)] | sort(attribute='0,1') }}"),
            "line 1: filter 'sort': cannot compare list with list");
  EXPECT_EQ(error_of("{{ 'a' | replace('b') }}"), "line 1: filter 'replace': the argument 'new' is missing");
  EXPECT_EQ(error_of("{{ 'a' | trim('x', 'y') }}"), "line 1: filter 'trim': takes at most 1 arguments, found 2");
  EXPECT_EQ(error_of("{{ 'a' | trim(x=1) }}"), "line 1: filter 'trim': has no parameter 'x'");
  EXPECT_EQ(error_of("{{ 'a' | trim('x', chars='y') }}"), "line 1: filter 'trim': the argument 'chars' is given twice");
  EXPECT_EQ(error_of("{{ [1] | map('nope') }}"), "line 1: filter 'map': there is no filter 'nope'");
  EXPECT_EQ(error_of("{{ [1] | map('string') }}"), "line 1: a generator cannot be printed; '| list' makes it a list");
  EXPECT_EQ(error_of("{{ range(100001) }}"), "line 1: function 'range': more than 100000 numbers");
  EXPECT_EQ(error_of("{{ namespace }}"), "line 1: a function cannot be printed");
  EXPECT_EQ(error_of("{{ '%s %s' % 'a' }}"), "line 1: a format has more places than there are values");
  EXPECT_EQ(error_of("{{ '%s' % ('a', 'b') }}"), "line 1: a format has fewer places than there are values");
  EXPECT_EQ(error_of("{{ '%(b)s' % {'a': 1} }}"), "line 1: a format asks for 'b', which is not there");
  EXPECT_EQ(error_of("{{ '%d' % 'a' }}"), "line 1: a format's '%d' needs a number, found string");
  EXPECT_EQ(error_of("{{ '%*d' % (1, 2) }}"), "line 1: a format's '%' is followed by '*', which is no known type");
  EXPECT_EQ(error_of("{{ '{}{}'.format(1) }}"), "line 1: a format asks for value 1, of 1");
  EXPECT_EQ(error_of("{{ '{'.format(1) }}"), "line 1: a format has a single '{'");
  EXPECT_EQ(error_of("{{ '{:{}}'.format(1, 2) }}"), "line 1: a format with a field within a field is not supported");
  EXPECT_EQ(error_of("{{ '{:y}'.format(1) }}"), "line 1: the format 'y' is not supported");
  EXPECT_EQ(error_of("{{ '{:d}'.format('a') }}"), "line 1: the format 'd' is not one for string");
  EXPECT_EQ(error_of("{% set c = cycler(1) %}{% set c.items = 5 %}{{ c.next() }}"),
            "line 1: method 'next': the cycler was changed");
  EXPECT_EQ(error_of("{% macro m(x) %}{{ x }}{% endmacro %}\n{{ m(1, 2) }}"),
            "line 2: macro 'm' takes at most 1 arguments, found 2");
  EXPECT_EQ(error_of("{% macro m(x) %}\n{{ x.y }}{% endmacro %}\n{{ m() }}"),
            "line 2: the parameter 'x' was not given");
}

TEST(TemplateErrors, ARefusalOfTheTemplateIsOneLine) {
  EXPECT_EQ(error_of("\n{{ raise_exception('Roles must alternate!') }}"),
            "line 2: the template refuses the conversation: 'Roles must alternate!'");
  EXPECT_EQ(error_of("{{ raise_exception(m) }}", {{"m", "a\nb\x1b[1m"}}),
            "line 1: the template refuses the conversation: 'a\\x0ab\\x1b[1m'");
}

TEST(TemplateErrors, VariablesMustBeObjectsOfText) {
  EXPECT_EQ(error_of("x", Json::array()), "line 1: the variables are array; expected an object");
  EXPECT_EQ(error_of("x", {{"m", "a\xff"}}),
            "line 1: the variables hold the text 'a\\xff', which is not UTF-8 at byte offset 1");
  EXPECT_EQ(error_of("x", {{"m", 18446744073709551615u}}),
            "line 1: the variables hold the integer 18446744073709551615, which exceeds 64 bits with a sign");
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json::array({deep});
  EXPECT_EQ(error_of("x", {{"m", deep}}), "line 1: the variables are nested deeper than 100");
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(TemplateLimits, NestingIsBoundedWhileParsing) {
  EXPECT_EQ(error_of("{{ " + repeated("(", 100000) + repeated(")", 100000) + " }}"),
            "line 1: expressions are nested deeper than 100");
  EXPECT_EQ(error_of("{{ " + repeated("not ", 100000) + "x }}"), "line 1: expressions are nested deeper than 100");
  EXPECT_EQ(error_of("{{ " + repeated("-", 100000) + "1 }}"), "line 1: expressions are nested deeper than 100");
  EXPECT_EQ(error_of("{{ x" + repeated("+x", 100000) + " }}"), "line 1: an expression of more than 250 steps");
  EXPECT_EQ(error_of("{{ x" + repeated(".x", 100000) + " }}"), "line 1: an expression of more than 250 steps");
  EXPECT_EQ(error_of("{{ x" + repeated("|trim", 100000) + " }}"), "line 1: an expression of more than 250 steps");
  EXPECT_EQ(error_of(repeated("{% if x %}", 100000)), "line 1: tags are nested deeper than 100");
  EXPECT_EQ(error_of("{% set " + repeated("(", 1000) + "a" + repeated(")", 1000) + " = 1 %}"),
            "line 1: expressions are nested deeper than 100");
  // Long is not deep.
  EXPECT_EQ(error_of("{{ 'a'" + repeated(" ~ 'a'", 1000) + " }}"), "rendered: " + repeated("a", 1001));
  EXPECT_EQ(error_of("{% if 0 %}" + repeated("{% elif 0 %}", 1000) + "{% endif %}b"), "rendered: b");
}

TEST(TemplateLimits, RecursionIsBounded) {
  EXPECT_EQ(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            "line 1: calls and expressions are nested deeper than 400");
  EXPECT_EQ(error_of("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}"),
            "line 1: lists and mappings are nested deeper than 100");
}

// Values are destroyed by recursion, so that a chain of a million of them would end the program.
TEST(TemplateLimits, NestingThroughMethodsAndLoopsIsBounded) {
  const std::string head = "{% set ns = namespace(x=[]) %}{% for j in range(10) %}{% for i in range(100000) %}";
  const std::string tail = "{% endfor %}{% endfor %}";
  for (const std::string link :
       {"{% set ns.x = [ns.x.index] %}", "{% set ns.x = {1: ns.x}.get %}{% set ns.x = [ns.x] %}",
        "{% set ns.x = (ns.x, 1)|list %}{% set ns.x = ns.x.count %}",
        "{% for q in [ns.x, 1] %}{% if loop.last %}{% set ns.x = loop %}{% endif %}{% endfor %}",
        "{% for q in [1, ns.x] %}{% if loop.first %}{% set ns.x = loop.cycle %}{% endif %}{% endfor %}"})
    EXPECT_EQ(error_of(head + link + tail), "line 1: lists and mappings are nested deeper than 100") << link;
  // What a macro is called with, and what it falls back to, is no part of the macro.
  const std::string macro = "{% macro m(x=ns.x) %}{{ caller(x) }}{% endmacro %}";
  const std::string call = "{% call(y) m() %}{% set ns.x = [m] %}{% endcall %}";
  EXPECT_EQ(error_of("{% set ns = namespace(x=0) %}" + macro + "{% for i in range(1000) %}" + call + "{% endfor %}"),
            "rendered: ");
  // A chain of namespaces may be of any length.
  EXPECT_EQ(
      error_of(
          "{% set n = namespace(x=0) %}{% for i in range(100000) %}{% set n.x = namespace(x=[n.x]) %}{% endfor %}"),
      "rendered: ");
}

TEST(TemplateLimits, StepsAndTextsAreBounded) {
  RenderOptions options;
  options.limits.steps = 10'000;
  EXPECT_EQ(
      error_of("{% for i in range(1000) %}\n{% for j in range(1000) %}{{ j }}{% endfor %}{% endfor %}", {}, options),
      "line 2: the template takes more than 10000 steps");
  options = {};
  options.limits.text_bytes = 1000;
  EXPECT_EQ(error_of("{{ 'ab' * 501 }}", {}, options), "line 1: a text of more than 1000 bytes");
  EXPECT_EQ(error_of("{% for i in range(300) %}{{ 'abcd' }}{% endfor %}", {}, options),
            "line 1: a text of more than 1000 bytes");
  EXPECT_EQ(error_of("{% set ns = namespace(t='a') %}{% for i in range(100) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
                     {}, options),
            "line 1: a text of more than 1000 bytes");
  // Looking costs as making does: at texts, for parts of them, and for names among many.
  for (const std::string look : {"s|length", "s.find('b')", "s.strip()", "s|wordcount", "s.count('b')", "t in s",
                                 "s.find(t)", "s.strip(t)", "s|trim", "s.startswith(t)"}) {
    options = {};
    options.limits.steps = 2'000'000;
    EXPECT_EQ(
        error_of(
            "{% set s = ('a' * 1000) * 1000 %}{% set t = 'a' * 1000 + 'b' %}{% for i in range(1000) %}{% set x = " +
                look + " %}{% endfor %}",
            {}, options),
        "line 1: the template takes more than 2000000 steps")
        << look;
  }
  std::string sets, dict = "{{ {", fields = "{% set n = namespace() %}";
  for (int i = 0; i < 10'000; ++i) {
    sets += "{% set v" + std::to_string(i) + " = 0 %}";
    dict += std::to_string(i) + ": 0, ";
    fields += "{% set n.v" + std::to_string(i) + " = 0 %}";
  }
  options.limits.steps = 1'000'000;
  for (const std::string &text : {sets, dict + "} }}", fields})
    EXPECT_EQ(error_of(text, {}, options), "line 1: the template takes more than 1000000 steps");
  options = {};
  options.limits.text_bytes = 1000;
  EXPECT_EQ(error_of("{{ 'a' | indent(2000, true) }}", {}, options), "line 1: a text of more than 1000 bytes");
  EXPECT_EQ(error_of("{{ 'a'.ljust(4000000000000) }}", {}, options), "line 1: a text of more than 1000 bytes");
  EXPECT_EQ(error_of("{{ '%999999999s' % 'a' }}", {}, options), "line 1: a text of more than 1000 bytes");
  EXPECT_EQ(error_of("{{ '{:999999999}'.format(1) }}", {}, options), "line 1: a text of more than 1000 bytes");
  for (const std::string format : {"'%.999999999d' % 1", "'%.999999999f' % 1", "'{:.999999999f}'.format(1)"})
    EXPECT_EQ(error_of("{{ " + format + " }}", {}, options),
              "line 1: a format for numbers asks for more than 1000 digits");
  EXPECT_EQ(error_of("{{ 'ab' * 500 }}", {}, options), "rendered: " + repeated("ab", 500));
}

// Shared parts make small values with more elements than could ever be walked over.
TEST(TemplateLimits, ValuesThatHoldThemselvesManyTimesAreBounded) {
  EXPECT_EQ(error_of("{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor "
                     "%}{{ ns.l == [ns.l] }}"),
            "line 1: a list or mapping has more than 50000000 elements in all");
  // A namespace may hold itself; it must not keep itself alive either, which the sanitizers' runs would show.
  EXPECT_EQ(error_of("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.list = [ns] %}{{ ns.self == ns }}"),
            "rendered: True");
}

Json object_of(const std::vector<std::string> &keys) {
  Json object = Json::object();
  for (const std::string &key : keys) object[key] = 1;
  return object;
}

// Templates that walked over much for few steps: each would go on for minutes where it does not pay for its walk.
TEST(TemplateLimits, WhatIsWalkedOverIsPaidFor) {
  std::vector<std::string> long_keys, keys, reversed;
  for (int i = 0; i < 300; ++i) long_keys.push_back(repeated("a", 10'000) + std::to_string(1000 + i));
  for (int i = 0; i < 3000; ++i) keys.push_back(std::to_string(1000 + i));
  reversed.assign(keys.rbegin(), keys.rend());
  const Json input = {
      {"long", object_of(long_keys)}, {"q", long_keys.back()}, {"d", object_of(keys)}, {"e", object_of(reversed)}};
  const std::string name = repeated("x", 20'000);
  const auto looped = [](int times, const std::string &body) {
    return "{% for i in range(" + std::to_string(times) + ") %}" + body + "{% endfor %}";
  };
  const auto evaluated = [&](int times, const std::string &expression) {
    return looped(times, "{% set z = " + expression + " %}");
  };
  std::string display = "{% set k = 'a' * 10000 %}{% set z = {";
  for (int i = 0; i < 100; ++i) display += "k ~ '" + std::to_string(100 + i) + "': 1, ";
  const std::string templates[] = {
      // Keys of one length that differ at their ends.
      evaluated(50, "long.get(q)"), evaluated(50, "long[q]"), evaluated(50, "q in long"), display + "} %}",
      "{% set n = namespace(long) %}" + evaluated(50, "n[q]"), evaluated(50, "long == dict(long)"),
      // Mappings: compared, walked over.
      "{% set z = d == e %}", evaluated(1000, "d|first"), looped(1000, "{% for k in d %}{% break %}{% endfor %}"),
      // Names: of one length, undefined, of arguments, through many scopes.
      "{% set " + name + "a = 1 %}{% set " + name + "b = 1 %}" + evaluated(1000, name + "b"), evaluated(1000, name),
      evaluated(1000, "dict(" + name + "=1)"),
      repeated("{% with %}", 98) + evaluated(20'000, "d") + repeated("{% endwith %}", 98),
      evaluated(1000, "[1]|map(attribute='a" + repeated(".a", 1000) + "', default={'a': 1})|list"),
      // Numbers, sets of characters, texts that are half of the template.
      evaluated(10'000, "'%.900f' % 0.1"), evaluated(10'000, "'{:e}'.format(0.1)"),
      evaluated(100, "('1' * 20000)|float"), evaluated(100, "'x'.strip('a' * 20000)"),
      "{% set s = (d|length ~ 'a') * 20000 %}" + evaluated(80, "s|trim"),
      // What is held until the end.
      looped(20'000, "{% macro m() %}{% endmacro %}"), evaluated(20'000, "namespace()")};
  RenderOptions options;
  options.limits.steps = 1'000'000;
  for (const std::string &text : templates)
    EXPECT_EQ(error_of(text, input, options), "line 1: the template takes more than 1000000 steps")
        << text.substr(0, 200);
  // A sort walks over elements within elements once.
  EXPECT_EQ(error_of("{{ [[2, 'b'], [1, ['a', 3]], [1, ['a', 2]]]|sort }}{{ [[1], 2] < [[1], 3] }}{{ [[range(3)]] < "
                     "[[range(3)], 1] }}"),
            "rendered: [[1, ['a', 2]], [1, ['a', 3]], [2, 'b']]TrueTrue");
}

// A text of its own for each character takes ten times and more the memory of the text: a short template would take
// gigabytes if they were as cheap as the text is.
TEST(TemplateLimits, TextsMadeOfTheCharactersOfATextAreDear) {
  EXPECT_EQ(error_of("{% set x = ('a' * 1000) * 20000 %}{% for c in x %}{% endfor %}"),
            "line 1: the template takes more than 50000000 steps");
  RenderOptions options;
  options.limits.steps = 5'000'000;
  const std::string long_text = "{% set x = ('a ' * 1000) * 1000 %}";
  for (const std::string walk :
       {"{% for c in x %}{% break %}{% endfor %}", "{{ x|list|length }}", "{{ x|join|length }}", "{{ x|unique|list }}",
        "{{ x|map('upper')|first }}", "{{ x|batch(2)|first }}", "{{ x|min }}", "{{ x.split()|length }}",
        "{{ x.rsplit()|length }}", "{{ x.split('a')|length }}", "{{ x.rsplit('a')|length }}", "{{ x|title|length }}",
        "{{ x.replace(' ', '\\n').splitlines()|length }}"})
    EXPECT_EQ(error_of(long_text + walk, {}, options), "line 1: the template takes more than 5000000 steps") << walk;
}

TEST(TemplateLimits, TheEndsAndPartsOfATextAreFoundWithoutItsCharacters) {
  EXPECT_EQ(error_of("{% set x = 'a' * 20000000 %}{{ x|first }}{{ x|last }}"), "rendered: aa");
  RenderOptions options;
  options.limits.steps = 6'000'000;  // three times what the text takes
  const std::string long_text = "{% set x = ('aé' * 1000) * 5000 ~ 'b' %}";
  EXPECT_EQ(error_of(long_text + "{{ x|first }}{{ x|last }}{{ x[-2] }}", {}, options), "rendered: abé");
  EXPECT_EQ(error_of(long_text + "{{ x[:2] }}{{ x[-1:] }}", {}, options), "rendered: aéb");
  EXPECT_EQ(error_of("{{ ''|first }}{{ ''|last }}{{ (''|first) is defined }}{{ 'é'|last }}", {}, options),
            "rendered: Falseé");
}

// Each place where a part is found costs, beside the look for it.
TEST(TemplateLimits, CountingIsPaidFor) {
  RenderOptions options;
  options.limits.steps = 1'000'000;
  EXPECT_EQ(error_of("{% set x = ('a' * 1000) * 1000 %}{{ x.count('a') }}", {}, options),
            "line 1: the template takes more than 1000000 steps");
}

TEST(ChatTemplate, TheDateIsTheGivenOne) {
  RenderOptions options;
  options.now = 86400 * 365 + 12 * 3600;  // noon of 1 January 1971, UTC
  const auto rendered =
      render("{{ strftime_now('%Y') }} {{ strftime_now('') }}", Json::object(), Json::object(), options);
  ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
  EXPECT_EQ(rendered->text, "1971 ");
}

// A locale with commas in numbers, German names of days, and letters of one byte beyond ASCII; made if localedef can.
class GermanLocale {
 public:
  GermanLocale() {
    const auto directory = std::filesystem::temp_directory_path() / ("bonsai-locale-" + std::to_string(getpid()));
    const std::string made = (directory / "de_DE.ISO-8859-1").string();
    std::filesystem::create_directories(directory);
    // localedef also warns, which is an exit status other than 0.
    [[maybe_unused]] const int status =
        std::system(("localedef -i de_DE -f ISO-8859-1 '" + made + "' >/dev/null 2>&1").c_str());
    setenv("LOCPATH", directory.c_str(), 1);
    is_set_ = std::setlocale(LC_ALL, "de_DE.ISO-8859-1") != nullptr;
    unsetenv("LOCPATH");
    std::filesystem::remove_all(directory);
  }
  ~GermanLocale() { std::setlocale(LC_ALL, "C"); }
  GermanLocale(const GermanLocale &) = delete;
  GermanLocale &operator=(const GermanLocale &) = delete;

  bool is_set() const { return is_set_; }

 private:
  bool is_set_ = false;
};

TEST(ChatTemplate, TheProgramsLocaleChangesNothing) {
  const GermanLocale locale;
  if (!locale.is_set()) GTEST_SKIP() << "no German locale: localedef cannot make one here";
  RenderOptions options;
  options.now = 86400 * 365 + 12 * 3600;
  EXPECT_EQ(error_of("{{ strftime_now('%A, %d %B') }} {{ 2.675|round(1) }} {{ 1.5 }} {{ '%.1f' % 2.5 }} {{ '2.5'|float "
                     "}} {{ 'a ä'|urlencode }} {{ 'a ä'|wordcount }}",
                     Json::object(), options),
            "rendered: Friday, 01 January 2.7 1.5 2.5 2.5 a%20%C3%A4 2");
}

TEST(ChatTemplate, ItRendersAgainAndAgain) {
  const auto chat_template = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% for m in ms %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}");
  ASSERT_TRUE(chat_template.has_value());
  const Json none = Json::object(), one = {{"ms", {1}}}, two = {{"ms", {1, 2}}};
  EXPECT_EQ(chat_template->render({.input = two, .trusted = none})->text, "2");
  EXPECT_EQ(chat_template->render({.input = one, .trusted = none})->text, "1");
  EXPECT_TRUE(chat_template->mentions("ms"));
  EXPECT_FALSE(chat_template->mentions("tools"));
}

TEST(ChatTemplate, KeysKeepTheirOrder) {
  EXPECT_EQ(traced("{{ d | tojson }}", {{"d", {{"z", 1}, {"a", 2}, {"m", 3}}}}), R"({"z": 1, "a": 2, "m": 3})");
}

}  // namespace
}  // namespace bonsai::jinja
