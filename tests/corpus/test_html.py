"""HTML pages: structure kept as lines, dirt survived, bytes decoded as browsers do."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.corpus.html import read_page


def test_a_page() -> None:
    page = read_page(
        "<html><head><title> A &amp; B\n</title><style>p{}</style></head><body><nav>menu</nav><h1>Head</h1>"
        "<p>One <a href=x>link</a>, two<br>three.<p>caf&eacute; <b>bo</b>ld &nbsp; x"
        "<ul><li>first<li>second</ul><pre>  x\n   y</pre><script>bad()</script>"
        "<div>end<div>inner</div>tail</div><!-- comment -->"
    )
    assert page.title == "A & B"
    assert page.text == "Head\n\nOne link, two\nthree.\n\ncafé bold x\n\nfirst\nsecond\n\n  x\n   y\n\nend\ninner\ntail"


def test_table_rows_are_lines() -> None:
    table = (
        "<table><thead><tr><th>Name<th><p>Age</p></thead><tr><td> Ann </td><td></td><td>\n<p>5</p>\n</td></tr>"
        "<tr><td></td><td></td></tr><tr><td colspan=2><div>Bo</div><td>6</table>after"
    )
    assert read_page(table).text == "Name | Age\nAnn | 5\nBo | 6\n\nafter"
    nested = "<table><tr><td>a<td><table><tr><td>b<td>c<tr><td>d</table><td>e</table>"
    assert read_page(nested).text == "a | b | c\nd | e"


def test_title_falls_back_to_the_first_heading() -> None:
    assert read_page("<h1>One <i>two</i></h1><h1>Three</h1>").title == "One two"
    assert read_page("<svg><title>icon</title></svg>text").title == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"caf\xe9 \x93q\x94", "café “q”"),
        (b"<meta charset='iso-8859-2'>\xb3\xf3d\xbc", "łódź"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">\xd6', "ж"),
        (b"<meta charset=iso-8859-1>caf\xc3\xa9", "café"),  # declared wrongly: it is UTF-8
        (b"<meta charset=utf-16>caf\xc3\xa9", "café"),
        (b"<meta charset=no-such-thing>caf\xe9", "café"),
        (b"<meta charset=base64>caf\xe9", "café"),
        (b"<meta charset=iso-2022-jp>\x1b$BEl5~\x1b(B", "東京"),
        (b"<meta charset=shift_jis>\x93\x8c\x8b\x9e", "東京"),
        ("\ufeffcafé".encode(), "café"),
        ("café".encode("utf-16"), "café"),
        ("\ufeffcafé".encode("utf-16-be"), "café"),
        (b"<meta charset=utf-8>ok \xff\xfe bad", "ok \ufffd\ufffd bad"),
    ],
)
def test_encodings(data: bytes, text: str) -> None:
    assert read_page(data).text == text


@pytest.mark.parametrize(
    "unit", ["<table><tr><td>x", "<div>x ", "<b>x ", "<ul><li>x", "</p></div>", "<", "&", "<a href='"]
)
def test_ten_thousand_deep(unit: str) -> None:
    page = read_page(unit * 10_000)
    assert page.text.count("x") == unit.count("x") * 10_000


def test_nothing_and_no_markup() -> None:
    assert read_page(b"") == ("", "")
    assert read_page("plain  text\n\nhere") == ("", "plain text here")
    assert read_page("<frameset><frame></frameset>").text == ""
    assert read_page("lone \ud800 surrogate").text == "lone ? surrogate"


TAGS = [
    "table",
    "tr",
    "td",
    "/td",
    "/tr",
    "/table",
    "p",
    "/p",
    "pre",
    "/pre",
    "li",
    "br",
    "script",
    "/script",
    "svg",
    "/body",
    "template",
    "!--",
    "x>",
]
dirt = st.lists(
    st.sampled_from([*(f"<{tag}>" for tag in TAGS), "-->", "word", " ", "\n", "&amp;", "&#0;"]) | st.text(max_size=5),
    max_size=60,
).map("".join)


@given(dirt)
@example("\ufeff")
@settings(max_examples=300, deadline=None)
def test_no_markup_breaks_it(markup: str) -> None:
    page = read_page(markup)
    assert page.text == page.text.strip()
    assert read_page(markup.encode("utf-8", "replace")).text.replace("?", "") == page.text.replace("?", "")


@given(st.binary(max_size=100))
def test_no_bytes_break_it(data: bytes) -> None:
    read_page(data)
