#!/usr/bin/env python3
"""Writes template-golden.json: small chat templates and what Jinja makes of them.

The templates are rendered with Jinja (Debian's python3-jinja2) set up as Hugging Face's transformers sets it up for
chat templates: trim_blocks, lstrip_blocks, loop controls, the immutable sandbox, json.dumps() as `tojson`,
raise_exception(). A case whose rendering fails has "fails": true instead of a text.

    python3 make_template_golden.py template-golden.json
"""

import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


class Generation(jinja2.ext.Extension):
    """{% generation %} as a scope that prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = tojson
ENVIRONMENT.globals["raise_exception"] = raise_exception

# What every case may use.
VARIABLES = {
    "n": 7, "zero": 0, "x": 2.5, "big": 1e20, "small": 1e-7, "yes": True, "no": False, "nothing": None,
    "s": "Hello, World", "empty": "", "uni": "Käse  ist\tgut — ja! 日本語 👩‍💻", "lines": "one\n\n  two\r\nthree\n",
    "padded": "  \n mid dle \t ", "quote": "it's \"q\" \\ \u0001\u00a0\u200b\x7f",
    "list": [3, 1, 2], "words": ["beta", "Alpha", "gamma", "alpha"], "mixed": [1, "a", None, True, 2.0, [1, "x'y"]],
    "obj": {"b": 1, "a": [1, 2], "C": {"k": "v"}}, "none_dict": {},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []},
               {"name": "Cem", "age": 30}],
    "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi <|im_end|>"},
                 {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
                 {"role": "tool", "content": [{"type": "text", "text": "part"}, {"type": "image"}]}],
}

# Expressions, each printed between brackets.
EXPRESSIONS = r"""
1 + 2 * 3 - 4
7 / 2
6 / 2
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
7.5 % 2
-7.5 // 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
10 - 2 - 3
1_000 + 0x1F + 0o17 + 0b101
1.5e3
1e16
1e15
123456789012345680.0
0.1 + 0.2
1e-5
0.0001
-0.0
1.0
big
small
true + 1
yes and n
no or 'alt'
nothing or empty or 'last'
not n
not empty and yes
1 < 2 < 3
3 > 2 > 2
1 == 1.0
true == 1
'a' < 'b'
[1, 2] < [1, 3]
(1, 2) == (1, 2)
[1] == (1,)
{'a': 1} == {'a': 1.0}
nothing == none
missing == nothing
missing is undefined
missing
'x' ~ missing ~ 'y'
'ell' in s
'z' not in s
3 in list
'b' in obj
'x' in missing
none in mixed
s[0]
s[-1]
s[1:4]
s[::-1]
s[-3:]
s[:-3:2]
s[10:2:-3]
uni[:3]
uni[::-1]
uni|length
list[::-1]
list[1:]
list[-2:]
list[5]
list[5] is defined
list[-1]
obj['a'][0]
obj.a.1
obj.C.k
obj['zz'] is defined
obj.get('b')
obj.get('q')
obj.get('q', 'dflt')
obj.items()
obj.keys() | list
obj.values() | list
obj.items() | list
obj
mixed
(1,)
()
(1, 'a')
{'k': none, 1: 'one', 2.5: true}
[['deep', ['er']]]
quote
[quote]
[uni]
"it's"
['it\'s', "\"", '\'"']
'a' 'b' "c"
'\n\t\\\x41\u00e9\q\101'
s * 2
2 * 'ab'
[1] * 3
[1] + [2, 3]
(1,) + (2,)
'a' if yes else 'b'
'a' if no
('a' if no) is defined
'%s' if no else 'c' if no else 'd'
1 if 2 if 0 else 3 else 4
range(3) | list
range(2, 10, 3) | list
range(5, 0, -2) | list
range(3)
range(1, 4)[1]
namespace(a=1).a
obj|length
none_dict|length
s|length
s|upper
s|lower
s|title
"foo-bar baz(qux [x {y <z it's"|title
"they're bill's friends".title()
s|capitalize
'hELLO wORLD'.capitalize()
'hELLO'.swapcase()
'äöü'.upper()
s|trim
padded|trim
padded.strip()
padded.lstrip()
padded.rstrip()
'xxabcxx'.strip('x')
'xyabcyx'|trim('xy')
'\nabc\n'.lstrip('\n')
s|replace('l', 'L')
s|replace('l', 'L', 2)
'aaa'.replace('a', 'b', 2)
'abc'.replace('', '-')
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.rsplit(',', 1)
'a,b,,c'.rsplit(',')
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
' a  b c '.rsplit()
''.split()
''.split(',')
lines.splitlines()
lines.splitlines(true)
s.startswith('Hell')
s.startswith(('x', 'H'))
s.endswith('ld')
s.find('o')
uni.find('ist')
s.rfind('o')
s.find('zz')
s.index('W')
s.count('l')
'abc'.count('')
', '.join(['a', 'b'])
'k=v=w'.partition('=')
'k=v=w'.rpartition('=')
'kv'.partition('=')
'kv'.rpartition('=')
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
'7'.zfill(3)
'-7'.zfill(4)
'ab'.ljust(4, '.')
'ab'.rjust(4)
list.index(1, 1)
list.index(2, -1)
list.index(3, 1)
list.index(3, 0, 0)
list.index(2, -99, 99)
list.index(1, 0, -1)
'²'.isdigit()
'²'.isdecimal()
'½'.isdigit()
'①'.isdigit()
'⑩'.isdigit()
'٣'.isdigit()
'½'.isalnum()
'a²Ⅷ'.isalnum()
'a b'.isalnum()
'½'.isnumeric()
'一'.isnumeric()
'三二'.isnumeric()
'丁'.isnumeric()
'一'.isdigit()
'a一'.isalnum()
'A' is sameas 'A'
'ABC def' is sameas 'ABC def'
'ABC' is sameas 'ABD'
'' is sameas ''
s is sameas s
s is sameas 'Hello, World'
s[0] is sameas 'H'
'A' is sameas 1
'{:b}'.format(10)
'{:#b}'.format(-10)
'{:08b}|{:<6b}|{:+b}'.format(5, 5, 5)
'{:b}'.format(2.5)
'{:b}'.format('a')
'{:,b}'.format(5)
'%b' % 5
'12'.isdigit()
'1a'.isdigit()
'ab'.isalpha()
'a1'.isalnum()
' \t'.isspace()
''.isspace()
'AB1'.isupper()
'ab1'.islower()
'12'.islower()
list|first
list|last
[]|first
[]|first is defined
s|first
s|last
list|join
list|join(', ')
people|join('/', attribute='name')
mixed|join('|')
list|sort
list|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|join(' ')
people|sort(attribute='age,name')|map(attribute='name')|join(' ')
people|sort(attribute='age,name', reverse=true)|map(attribute='name')|join(' ')
people|sort(false, true, 'age,name')|map(attribute='name')|join(' ')
people|sort(attribute='name,age')|map(attribute='name')|join(' ')
people|sort(attribute='tags.0,name')|map(attribute='name')|join(' ')
people|sort(attribute='age, name')|map(attribute='name')|join(' ')
people|sort(attribute='age,')|map(attribute='name')|join(' ')
people|sort(attribute='age,nope')|map(attribute='name')|join(' ')
['bA', 'Ba', 'ab', 'AA']|sort(attribute='1,0')|join(' ')
['bA', 'Ba', 'ab', 'AA']|sort(attribute='1,0', case_sensitive=true)|join(' ')
people|min(attribute='age,name')
people|unique(attribute='age,name')|list|length
[(1, 'a'), (1, 2)]|sort(attribute='0,1')
[]|sort(attribute='0,1')
people|map(attribute='tags.0')|list|length
people|map(attribute='zip', default='?')|list
words|map('upper')|list
words|map('replace', 'a', '4')|join(',')
words|unique|list
words|unique(case_sensitive=true)|list
words|min
words|max
list|sum
people|sum(attribute='age')
people|sum('age', 100)
list|reverse|list
s|reverse
obj|dictsort
obj|dictsort(true)
{'b': 2, 'a': 3}|dictsort(by='value')
{'b': 2, 'a': 3}|dictsort(reverse=true)
{'b': 2, 'a': 3}|items|list
missing|items|list
[1, 2, 3, 4]|select('odd')|list
[1, 2, 3, 4]|reject('odd')|list
[0, 1, '', 'a']|select|list
[0, 1, '', 'a']|reject|list
[1, 2, 3, 4, 6]|select('divisibleby', 3)|list
people|selectattr('age', 'equalto', 30)|map(attribute='name')|list
people|selectattr('age', 'gt', 26)|list|length
people|rejectattr('tags')|map(attribute='name')|list
people|selectattr('tags', 'defined')|list|length
messages|selectattr('role', 'in', ['user', 'tool'])|list|length
'gen' if people|selectattr('age', 'eq', 99) else 'none'
(list|map('string')|first) ~ '!'
s|list
obj|list
(1, 2)|list
missing|default('d')
empty|default('d')
empty|default('d', true)
nothing|default('d')
nothing|d('d', boolean=true)
missing|d
'12'|int
' 12 '|int
'1_0'|int
'x'|int
'x'|int(5)
'3.9'|int
3.9|int
-3.9|int
'ff'|int(base=16)
nothing|int
true|int
'1.5'|float
'x'|float
2|float
'1e3'|float
'0x1A'|int(0, 16)
'0x_1a'|int(base=0)
'0b11'|int(base=2)
'0b1'|int(base=16)
'-0o17'|int(base=0)
'010'|int(base=0)
'00_0'|int(5, 0)
'0x1A'|int
'0x'|int(7, 16)
'0x-1'|int(7, 16)
'１２'|int
'٣٤'|int + '𝟡𝟘'|int
'１.５'|float
'+-5'|int(3)
'+ 5'|int(3)
'1__0'|int(3)
'1_'|float(3.0)
'1_.5'|float(3.0)
'1_0.2_5'|float
'1e400'|float
'-1e400'|float
'1e-400'|float
'0.00000001e-330'|float
'nan(1)'|float(3.0)
'Infinity'|float
'1e400'|int(3)
'nan'|int(3)
people|map(attribute='tags.0', default='?')|join
people|map(attribute='a.b', default=9)|list
people|map(attribute='name.b', default=none)|list|length
people|map(attribute='a.b', default=none)|list
people|groupby('tags.0.x', default='-')|list|length
'abcabc'.find('b', 2)
'abcabc'.find('b', 2, 4)
'abcabc'.find('b', -3, -1)
'abcabc'.find('', 6)
'abcabc'.find('', 7)
'abcabc'.rfind('b', 0, 4)
'äbäb'.rfind('ä', none, -2)
'abcabc'.index('c', 3)
'abcabc'.index('a', 4)
'abcabc'.rindex('c', -9, 99)
'abcabc'.count('a', 1)
'abcabc'.count('', 4)
'abcabc'.count('', 7)
'abcabc'.startswith('bc', 1)
'abcabc'.startswith('bc', 1, 2)
'abcabc'.startswith('', 7)
'abcabc'.startswith(('x', 'ca'), 2)
'abcabc'.endswith('bc', 0, 3)
'abcabc'.endswith('bc', 5)
'abcabc'.find('b', 'x')
-3|abs
-2.5|abs
2.5|round
3.5|round
2.675|round(2)
2.1|round(method='ceil')
2.9|round(0, 'floor')
7|round
1234.567|round(1)
42|string
nothing|string
'<a href="x">\'&'|e
s|safe
lines|indent
lines|indent(2)
lines|indent(2, true)
'a\n\nb\n'|indent(2, blank=true)
'a\nb'|indent('> ', first=true)
'a b  c'|wordcount
obj|tojson
mixed|tojson
uni|tojson
quote|tojson
uni|tojson(ensure_ascii=true)
obj|tojson(indent=2)
obj|tojson(indent=2, sort_keys=true)
obj|tojson(separators=(',', ':'))
[]|tojson(indent=4)
[[], {}, [1]]|tojson(indent=1)
obj|tojson(indent='--')
{1: 'a', none: 'b', true: 'c', 2.5: 'd'}|tojson
(1, 2)|tojson
[big, small, 1.0, x]|tojson
'</script>&\''|tojson
s is string
n is string
n is number
n is integer
x is integer
x is float
yes is number
yes is integer
yes is boolean
n is boolean
yes is true
n is true
no is false
nothing is none
missing is none
n is defined
n is not defined
obj is mapping
list is mapping
list is sequence
s is sequence
obj is sequence
n is sequence
missing is sequence
list is iterable
n is iterable
missing is iterable
obj.keys() is iterable
obj.keys() is sequence
(list|map('string')) is sequence
range is callable
n is callable
n is odd
n is even
n is divisibleby 7
n is divisibleby(2)
n is eq 7
n is equalto(8)
n is ne 7
n is lt 8
n is gt 8
n is ge 7
n is le 6
n is in [1, 7]
n is not in [1, 7]
'abc' is lower
'ABC' is upper
nothing is sameas none
'upper' is filter
'nope' is filter
'odd' is test
n is odd and n is not even
not n is even
s is string and s|length > 3
-n|abs
-(n)|abs
messages[0].content
messages[0]['role']
messages[2].tool_calls[0].function.arguments|tojson
messages[3].content is string
messages[-1].content[0].text
messages[1:]|length
messages[::2]|map(attribute='role')|join(',')
messages|map(attribute='role')|unique|list
[n, x, yes, nothing]
1, 2
[1, 2,]
{'a': 1,}
dict(a=1, b='x')
dict({'a': 1}, a=2)
namespace(obj).b
list.index(2)
list.count(3)
words.index('zz')
list.append(4)
obj.update({'z': 1})
obj.pop('b')
s.nope
s.nope()
missing.x
missing()
missing + 1
1 + 'a'
'a' - 1
1 < 'a'
[3, 'a']|sort
n|length
1 in 'abc'
n in n
1 / 0
1 // 0
1 % 0
obj|tojson(nope=1)
missing|tojson
raise_exception('boom')
'a'.split('')
(list|map('string'))|length
s.upper(1)
range(200000)
list['x']
s['upper']()
obj['items']()|list
"abc"[1] ~ "abc"[7]
'ab' 'cd'[1:]
('a', 'b')[1]
[1, 2, 3][1:][0]
n.nope is defined
loop is defined
true is true
none is none
True and not False
'a' ~ 1 ~ 2.0 ~ none ~ true ~ [1]
' '.join(words)
'-'.join('abc')
uni.split()
uni.strip('Kj')
"\u2028a\u2028"|trim
"a\u2028b".splitlines()
'Straße'.lower()
nothing|select|list
nothing|reject('odd')|list
nothing|selectattr('x')|list
nothing|rejectattr('x', 'eq', 1)|list
nothing|map(attribute='x')|list
nothing|map('upper')|list
zero|select|list
n|select|list
'%s is %d' % ('a', 3)
'%s' % s
'%s %s' % [1, 2]
'%s' % [1, 2]
'plain' % [1]
'plain' % {'a': 1}
'plain' % ()
'plain' % 1
'plain' % 'a'
'%s' % ()
'%s' % (1, 2)
'%s' % missing
'%s|%r|%s' % (quote, quote, nothing)
'%5s|%-5s|%05s|%.2s|%5.1s' % ('ab', 'ab', 'ab', 'äöü', 'xyz')
'%d|%5d|%-5d|%05d|%+d|% d|%.3d|%i|%u' % (n, n, n, n, n, n, n, n, n)
'%d|%05d|%+05d|%.3d' % (-n, -n, -n, -n)
'%d %d %s' % (3.9, true, true)
'%x|%X|%#x|%o|%#o' % (255, 255, 255, 8, 8)
'%f|%.2f|%8.3f|%-8.1f|%08.2f|%+.1f|%.0f' % (x, x, x, x, x, x, x)
'%e|%.2E|%g|%.3g|%G|%g' % (big, x, big, 1234.5, small, 100000)
'%f %F' % (n, -0.0)
'100%% of %s' % s
'%%'
'%% %d' % 3
'%c%c' % ('a', 228)
'%(a)s and %(b)s' % {'a': 1, 'b': [2]}
'%(a)05.1f' % {'a': 2.25}
'%(zz)s' % obj
'%(a)s' % (1,)
'%s %(a)s' % {'a': 1}
'%d' % 'a'
'%x' % 2.5
'%y' % 1
'%' % 1
'a%' % ()
'%s of %s'|format('a', n)
'%(a)s'|format(a=s)
'%s'|format
'%s %(a)s'|format(1, a=2)
'{} {}'.format('a', 1)
'{0} {1} {0} {b}'.format('a', 'c', b=1)
'{}'.format(quote)
'{!r} {!s}'.format('a', 'b')
'{a.b} {a[b]} {c[0]} {c[1][k]}'.format(a={'b': 1}, c=[1, {'k': 2}])
'{0[a]} {0.b}'.format(obj)
'{{}} {{{}}}'.format(n)
'{:5}|{:<5}|{:>5}|{:^5}|{:*^6}|{:é>4}|{:.2}|{:5.1}|{:s}|{:05}'.format('ab', 'ab', 'ab', 'ab', 'ab', 'ab', 'äöü', 'xyz', 'q', 'ab')
'{:5}|{:<5}|{:^5}|{:05}|{:+}|{: }|{:d}|{:x}|{:#X}|{:o}|{:,}|{:*=+6}'.format(n, n, n, n, n, n, n, 255, 255, 8, 1234567, n)
'{:5}|{:+05d}|{:,}|{:<6,d}|'.format(-n, -n, -1234, -123)
'{:.2f}|{:8.3f}|{:08.2f}|{:e}|{:.1E}|{:g}|{:%}|{:.1%}|{:,.2f}|{:,}'.format(x, x, x, x, x, x, x, x, 1234567.891, 1234.5)
'{}|{:6}|{:f}|{:.0f}'.format(x, x, n, x)
'{}|{:5}|{:d}|{}'.format(true, true, true, nothing)
'{} {}'.format(1)
'{a}'.format(1)
'{} {0}'.format(1)
'{0} {}'.format(1)
'{'.format(1)
'}'.format(1)
'{:d}'.format('a')
'{:d}'.format(2.5)
'{:s}'.format(1)
'{:+}'.format('a')
'{:=5}'.format('a')
'{:5}'.format([1])
'{:.2d}'.format(3)
'{!z}'.format(3)
'{0.zz}'.format(obj)
'{:y}'.format(3)
'abcb'.rindex('b')
'abc'.rindex('z')
'12'.isnumeric()
'½Ⅷ'.isnumeric()
'1a'.isnumeric()
''.isnumeric()
'Straße ǅ ΣΑΣ'.casefold()
'ab'.center(5)
'abc'.center(6, '*')
'ab'.center(1)
'ab'|center(7) ~ '|'
n|center(4) ~ '|'
('ab'|center)|length
[1, 2, 3]|batch(2)|list
[1, 2, 3]|batch(2, 'x')|list
'abc'|batch(2)|list
[]|batch(2)|list
[1, 2]|batch(0)|list
[1, 2, 3, 4, 5, 6, 7]|slice(3)|list
[1, 2, 3, 4, 5, 6, 7]|slice(3, 'x')|list
[1]|slice(3)|list
[1, 2]|slice(0)|list
people|groupby('age')|map(attribute='grouper')|list
people|groupby('age')|map(attribute='list')|map('length')|list
people|groupby('name')|map('first')|list
people|groupby('zip', default='none')|list|length
words|map('lower')|groupby(0)|map('first')|list
[{'a': 'B'}, {'a': 'b'}, {'a': 'A'}]|groupby('a')|map('first')|list
[{'a': 'B'}, {'a': 'b'}, {'a': 'A'}]|groupby('a', case_sensitive=true)|map('first')|list
([{'a': 1}]|groupby('a'))
[{'a': 1}, {'a': 'x'}]|groupby('a')
'a b/c?d=e&ü~_.-'|urlencode
{'a b': 'c/d', 'e': 1}|urlencode
[('a', 'b'), ('c', 'ü')]|urlencode
n|urlencode
[1]|urlencode
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11, leeway=0)
'foo bar baz qux'|truncate(9, end='~', leeway=0)
'äöüäöüäöüäöü'|truncate(5, leeway=0)
'abc'|truncate(2)
'foo bar baz qux'|truncate(2, leeway=0)
7|round(-400)
7|round(-1)
4|round(-1)
5|round(-1)
15|round(-1)
-15|round(-1)
25|round(-1)
95|round(-2)
50|round(-2)
51|round(-2)
1250|round(-2)
-1350|round(-2)
true|round(-1)
9223372036854775807|round(-2)
9223372036854775807|round(-20)
4611686018427387904|round(-18)
9007199254740993|round(-1)
1e300|round(-400)
-1e300|round(-400)
1e300|round(-299)
1e300|round(-300)
1e300|round(-301)
1.7976931348623157e308|round(-308)
1250.0|round(-2)
1250.5|round(-2)
1350.0|round(-2)
50.0|round(-2)
50.000001|round(-2)
-49.9|round(-2)
9.5|round(-1)
2.5|round(9223372036854775807)
2.5|round(-9223372036854775807 - 1)
2.675|round(2)
0.5|round
1e22|round(3)
1e-7|round(330)
5e-324|round(323)
5|round(400, 'ceil')
5|round(400, 'floor')
2.5|round(400, 'ceil')
2.5|round(308, 'floor')
5|round(-400, 'ceil')
7|round(-2, 'ceil')
7|round(-2, 'floor')
-0.5|round(0, 'ceil')
2.555|round(2, 'ceil')
'a'.zfill(-9223372036854775807 - 1)
'-a'.zfill(4)
'a'.center(-9223372036854775807 - 1)
'a'.ljust(-9223372036854775807 - 1)
'a'.rjust(-9223372036854775807 - 1)
'a'|center(-9223372036854775807 - 1)
'abc'|truncate(-9223372036854775807 - 1)
n is odd is even
n is defined is true
n is divisibleby 7 is true
n is divisibleby(7) is true
(n is odd) is true
n is odd and n is defined
1__0
10_
1_0
0x_1F
0x1_
0x1__F
0b1_0
0b1_
1_0.5
10_.5
missing|indent
nothing|indent
n|indent
'ab'|indent(none)
'a\nb'|indent(true)
'a\nb'|indent('> ')
missing|float
missing|float(1.5)
missing|int
missing|int(3)
nothing|float
nothing|int
list|float
list|int(4)
'abc'.startswith(['a'])
'abc'.startswith(('a', 1))
'abc'.startswith((1, 'a'))
'abc'.endswith(('b', 'c'))
'abc'.endswith(['c'])
'abc'.startswith(())
'abc'.startswith(1)
'abc'.startswith(none)
'a'.rjust(4, '--')
'a'.rjust(4, '')
'a'.rjust(4, 'é')
'a'.center(4, 'xy')
'a'.ljust(4, '  ')
joiner is callable
cycler()
"""

# Whole templates.
TEMPLATES = [
    "a\n", "a\n\n", "a\r\nb\rc\n", "", "\n", "{{ n }}\n", "{{ n }}\n\n", "{% if yes %}\nx\n{% endif %}\ny",
    "  {% if yes %}  \n  x\n  {% endif %}  \ny", "a {%- if yes -%} b {%- endif -%} c", "a\n  {%+ if yes %}b{% endif +%}\nc",
    "a  {{- n -}}  b", "  {{ n }}\n  {# note #}\n  b", "a {#- note -#} b", "{# a #}\n\nb{#- -#}  c", "x {# y #} z",
    "  {% set a = 1 %}  {{ a }}", "a{% set b = 1 %}\n\nc", "{{ '{{ x }}' }}{% raw %}{{ n }}{% if %}{% endraw %}!",
    "a\n  {% raw %}\n  b {{ c }}\n  {% endraw %}\nd", "{%- raw -%}  x  {%- endraw -%}  y", "{{ '}}' }}{{ {'a': {'b': 1}}['a'] }}",
    "{{ \"%}\" }}", "{ {% if yes %}{ }{% endif %} } {", "{{ 1 }}{{ 2 }}\n\n{{ 3 }}\n",
    "{% for i in list %}{{ i }},{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for i in list if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% else %}none{% endfor %}",
    "{% for i in list if i > 9 %}x{% else %}none{% endfor %}",
    "{% for c in 'äb' %}{{ c }}-{% endfor %}", "{% for k in obj %}{{ k }}{% endfor %}",
    "{% for k, v in obj.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in obj|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for i in 'abcd' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}"
    "{{ loop.previtem }}{{ loop.nextitem }}{{ loop.previtem is defined }}{{ loop.cycle('x', 'y') }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
    "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }}{{ loop.changed(i, 'x') }}{% if i == 2 %}{{ loop.changed() }}{% endif %} {% endfor %}",
    "{% for i in [1, 1, 2] %}{% if loop.changed(i) %}{{ i }}{% endif %}{% for j in [3, 3] %}{{ loop.changed(j) }}{% endfor %}{% endfor %}",
    "{% for i in [1, 1] %}{{ loop.changed(missing, [i]) }}{% endfor %}", "{% for i in [1] %}{{ loop.changed(x=1) }}{% endfor %}",
    "{% for i in [1, 2] %}{% for j in [3, 4] %}{{ loop.depth }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% for i in [1, 2] %}{{ i }}{% break %}{% else %}E{% endfor %}", "{% for i in [1, 2] %}{% continue %}{% else %}E{% endfor %}",
    "{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}E{% endfor %}",
    "{% for i in [1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% else %}E{% endfor %}",
    "{% set v = 1 %}{% for i in [] %}{% else %}{% set v = 2 %}{{ v }}{{ loop is defined }}{% endfor %}{{ v }}",
    "{% for j in [1, 2] %}{% for i in [] %}{% else %}{{ j }}{% continue %}{% endfor %}x{% else %}E{% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}.",
    "{% for i in list %}{% for j in list %}{% if j == 1 %}{% break %}{% endif %}{{ j }}{% endfor %};{% endfor %}",
    "{% set v = 1 %}{% for i in [1, 2] %}{{ v }}{% set v = 9 %}{{ v }}{% endfor %}{{ v }}",
    "{% set ns = namespace(v=1, l=[]) %}{% for i in list %}{% set ns.v = ns.v + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.v }}{{ ns.l }}",
    "{% set ns = namespace() %}{{ ns.x is defined }}{% set ns.x = 'y' %}{{ ns.x }}{{ ns['x'] }}",
    "{% set ns = namespace(a=1) %}{% macro m() %}{% set ns.a = ns.a + 1 %}{% endmacro %}{{ m() }}{{ m() }}{{ ns.a }}",
    "{% set obj.x = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = (1, 2, 3) %}", "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}x{{ n }}y{% endset %}[{{ a }}]{{ a is string }}", "{% set a | upper | replace('X', 'z') %}x{{ n }}y{% endset %}{{ a }}",
    "{% set a %}{% set inner = 1 %}{% endset %}{{ inner is defined }}", "{% if yes %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}",
    "{% if missing %}a{% else %}b{% endif %}", "{% if list and not none_dict %}a{% endif %}",
    "{% macro m(a, b='B', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}{{ m(1, c=5) }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(y=2) }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1, x=2) }}",
    "{% macro fact(k) %}{% if k > 1 %}{{ k }}*{{ fact(k - 1) }}{% else %}1{% endif %}{% endmacro %}{{ fact(4) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}",
    "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for i in [1] %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set g = 5 %}{% endmacro %}{{ m() }}{{ g is defined }}",
    "{% macro m() %}  x{% endmacro %}{{ m()|trim }}{{ m() ~ '!' }}{{ m is callable }}",
    "{% macro wrap(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call wrap('b') %}in {{ n }}{% endcall %}",
    "{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(v) each(list) %}({{ v }}){% endcall %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b') | trim %} aXa {% endfilter %}!",
    "{% with a=1, b=n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% set a = 1 %}{% with a=2, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}gen {{ n }}{% endgeneration %}\nx", "{% generation %}{% set h = 1 %}{% endgeneration %}{{ h is defined }}",
    "{% print n %}", "{% print n, s %}", "{% print %}", "{% print n, %}", "{% print n, missing, [1] %}", "{% print (n, s), 'a' ~ n %}",
    "{% print n s %}", "{% set gen = list|map('string') %}{% for i in gen %}{{ i }}{% endfor %}{% for i in gen %}again{% endfor %}",
    "{% set gen = list|map('string') %}{{ gen|first }}{{ gen|join }}", "{% set gen = list|select('odd') %}{{ 3 in gen }}{{ gen|list }}",
    "{% set messages = messages[1:] %}{{ messages|length }}{{ messages[0].role }}",
    "{%- for m in messages %}\n    {%- if m.content is string %}\n{{ m.role }}: {{ m.content }}\n    {%- elif m.content is none %}\nnone\n"
    "    {%- else %}\n        {%- for part in m.content %}\n            {%- if part.type == 'text' %}{{ part['text'] }}{% else %}<{{ part.type }}>{% endif %}\n"
    "        {%- endfor %}\n    {%- endif %}\n{% endfor %}",
    "{% set x = {'a': [1, {'b': 2}]} %}{{ x.a[1].b }}{{ x['a'][0] }}{{ x.a.1.b }}", "{{ [1, 2, 3] | map('string') | join }}",
    "{% for a, b in [[1, 2], [3]] %}{{ a }}{% endfor %}", "{% for i in 5 %}{% endfor %}", "{% for i in missing %}x{% else %}e{% endfor %}",
    "{{ n if yes }}{{ n if no }}", "{% set t = 'a' %}{% set t = t ~ t %}{% set t = t + t %}{{ t }}", "{% if s is string and s.startswith('H') %}ok{% endif %}",
    "{{ (list | sort)[0] }}{{ list | sort | first }}{{ (list|sort|list)[-1] }}", "{{- ' a ' -}}  \n b", "a\n\n  {%- if yes %}\n\n  b\n  {%- endif %}\n\nc",
    "{% if yes -%}\n  a\n{%- endif %}", "   {%- if yes %}x{% endif -%}   \n", "{{ 'x'\n  ~ 'y' }}", "{%\n if yes\n%}a{%\nendif\n%}b",
    "{% if (1, 2) %}t{% endif %}", "{{ {}.x is defined }}{{ [].0 is defined }}", "{%- set _ = 1 -%}{{ _ }}",
    "{{ messages[0].content.split(' ')[-1].lstrip('k') }}", "{% for m in messages | selectattr('role', 'eq', 'user') %}{{ m.content }}{% endfor %}",
    "{% for m in messages[:2] + messages[3:] %}{{ m.role }}{{ ' ' if not loop.last }}{% endfor %}", "{{ messages | tojson(indent=2) }}",
    "{% for x in people|sort(attribute='age') %}{{ x.name }}{% endfor %}", "{{ loop }}", "{% break %}", "{% endif %}", "{% if yes %}", "{{ n", "{{ n }", "{% nope %}",
    "{{ 1 + }}", "{{ n | nope }}", "{{ n is nope }}", "{{ 'abc }}", "{# never closed", "{% raw %}x", "{{ (1, 2 }}", "{{ [1, 2) }}", "{% for x of list %}{% endfor %}",
    "{% set true = 1 %}", "{{ f(a=1, 2) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ n $ 2 }}", "{{ a.b. }}", "{{ {1: } }}", "{% include 'x' %}",
    "{% set j = joiner() %}{% for i in list %}{{ j() }}{{ i }}{% endfor %}", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}",
    "{% set c = cycler('a', n) %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(1) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, b=2, c='x') }}{{ m(a=1) }}",
    "{% macro m() %}{% for v in varargs %}{{ v }},{% endfor %}{% for k, v in kwargs.items() %}{{ k }}={{ v }};{% endfor %}{% endmacro %}{{ m(1, 'b', k=2) }}",
    "{% macro m(a) %}{{ kwargs }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(a) %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ caller(1, 2, k=3) }}{% endmacro %}{% call(a) m() %}{{ a }}{{ varargs }}{{ kwargs }}{% endcall %}",
    "{% macro m() %}{{ kwargs }}{{ caller() }}{% endmacro %}{% call m(k=1) %}x{% endcall %}",
    "{% for g, xs in people|groupby('age') %}{{ g }}:{% for x in xs %}{{ x.name }} {% endfor %}{% endfor %}",
    "{% for g in people|groupby('age') %}{{ g.grouper }}{{ g.list|length }}{{ g }}{% endfor %}",
    "{% for row in list|batch(2, 0) %}{{ row|join('-') }};{% endfor %}", "{{ '%s' % ('<' ~ s ~ '>') }}{{ '%%' % () }}",
]


def render(source):
    try:
        return {"text": ENVIRONMENT.from_string(source).render(**VARIABLES)}
    except Exception:  # whatever Python or Jinja raises: the case is that it fails
        return {"fails": True}


def main(path):
    sources = ["[{{ " + e + " }}]" for e in EXPRESSIONS.strip("\n").split("\n")] + TEMPLATES
    cases = [{"template": source, **render(source)} for source in sources]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"jinja": jinja2.__version__, "variables": VARIABLES, "cases": cases}, file, ensure_ascii=False, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
