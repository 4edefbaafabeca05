"""Writes crates/session/tests/fixtures/tokenizer_golden.json: texts and their ids by the reference tokenizer.

    pip install --no-deps rwkv==0.8.32 && python oracle/tokenizer_golden.py

The reference is TRIE_TOKENIZER of the PyPI package `rwkv`; this one file of it needs neither torch nor a model.
Bytes that are not UTF-8 are given as hexadecimal and encoded by the reference's own encodeBytes.
"""

import json
from pathlib import Path

import rwkv
from rwkv.rwkv_tokenizer import TRIE_TOKENIZER

TEXTS = {
    "empty": "",
    "english": "The goose, she said, isn't lost; it's 3.14159 km away, flying home at 07:45. Don't you think so?",
    "chat": "User: Why is the sky blue?\n\nAssistant: Because air scatters short waves more.\n\nUser: Thanks!\n\n",
    "chinese": "今天天气很好，我们一起去公园散步吧。循环神经网络的状态大小是固定的，所以推理时不需要缓存。",
    "chinese traditional": "臺灣的夏天又熱又濕，「颱風」常在七月到九月之間來襲。",
    "japanese": "吾輩は走る。ガチョウは空を飛び、カタカナとひらがなと漢字がまじる文を読みます！ﾊﾝｶｸ",
    "korean": "거위는 하늘을 날고, 우리는 한국어 문장을 토큰으로 나눕니다. ㅋㅋㅋ 안녕하세요?",
    "arabic": "الإوزة تطير فوق البحيرة، واللُّغةُ العربيّة تُكتب من اليمين إلى اليسار ١٢٣٤.",
    "hebrew": "האווז עף מעל האגם, וְנִקּוּד מסבך את העניין.",
    "hindi": "हंस झील के ऊपर उड़ता है; क्ष, त्र और ज्ञ संयुक्त अक्षर हैं।",
    "thai": "ห่านบินเหนือทะเลสาบโดยไม่มีช่องว่างระหว่างคำ",
    "russian": "Гусь летит над озером, а съёмка ещё идёт — №5.",
    "greek and accents": "Η χήνα πετά. Über die Brücke, où l'été naïf coûte 5 €; ¿mañana? Đặc biệt, žluťoučký kůň.",
    "combining": "e\u0301 a\u0308\u0304 o\u0302\u0323 Z\u0351\u036b\u0343a\u0300l\u0301g\u0302o\u0303",
    "emoji": "🦢 ok 👍🏽 👩‍👩‍👧‍👦 🇩🇪🇯🇵 ❤️‍🔥 1️⃣ 🏳️‍🌈😀😀😀",
    "maths": "∀x ∈ ℝ: ∑_{i=0}^{n} x^i = (1 − xⁿ⁺¹) ⁄ (1 − x), 𝔸𝕓 ≈ √2 → ∞",
    "rust": (
        "fn main() {\n    let xs: Vec<u32> = (0..10).map(|x| x * x).collect();\n"
        "    assert_eq!(xs[3], 9, \"squares: {xs:?}\");\n}\n"
    ),
    "python": "def f(x):\n\tif x is None:\n\t\treturn {'a': [1, 2], \"b\": r'\\d+'}\n\treturn x ** 2  # done\n",
    "html and url": "<p class=\"x\">A &amp; B</p>\r\n<!-- https://example.org/a?b=c&d=%20#e -->\r\n",
    "json": "{\"key\": [true, null, -1.5e-7], \"nested\": {\"empty\": {}}}",
    "latex": "\\begin{align}\n  S_t &= S_{t-1} (\\mathrm{diag}(w) - \\kappa^\\top a) + v^\\top k \\\\\n\\end{align}",
    "spaces": " " * 300 + "x" + " " * 127 + "y" + " " * 2 + "z ",
    "newlines": "\n\n\n\n \n \n\t\n\r\n\r\n\r\r\n\n\n",
    "tabs": "\t\t\t\ta\t \t  \tb\t",
    "rules": "=" * 150 + "\n" + "-" * 100 + "\n" + "#" * 90 + "\n//" + "-" * 70 + "\n" + "*" * 77,
    "unusual spaces": "a\u00a0b\u2003c\u3000d\u200be\u2028f\u2029g\ufeffh\u0085i\x0bj\x0ck",
    "control": "".join(map(chr, range(32))) + "\x7f",
    "latin 1": "".join(map(chr, range(0x80, 0x100))),
    "digits": "0123456789 00000000 1000000 19990101 3.0 -42 0xdeadbeef 1e10 ٣ ३ ３",
    "literals of the vocabulary": "b'\\xff' \"\\n\" '\\u3000' \\\\ \\' it's \"it's\"",
    "special names": "<s></s><|endoftext|>\x00[PAD65530]",
    "rare planes": "𐍈𓀀𠀀𠮷\U0010ffff\ue000\ufffd\ufffe",
    "case": "camelCaseIdentifier SCREAMING_SNAKE_CASE kebab-case-name iPhone McDonald's eXtReMe",
}

BYTES = {
    "every byte": bytes(range(256)),
    "every byte, falling": bytes(reversed(range(256))),
    "lone continuation bytes": b"a\x80\x81\xbfb",
    "cut characters": "中文".encode()[:-1] + b" " + "🦢".encode()[:3] + b"x" + "é".encode()[:1],
    "overlong and surrogate": b"\xc0\x80 \xe0\x80\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80",
    "utf-16": "goose 鵝".encode("utf-16"),
    "shifted text": "今天天气很好".encode()[1:],
    "0xff run": b"\xff" * 9 + b"\xfe" * 5,
}


def main():
    reference = TRIE_TOKENIZER(Path(rwkv.__file__).with_name("rwkv_vocab_v20230424.txt"))
    cases = [{"name": name, "text": text, "ids": reference.encode(text)} for name, text in TEXTS.items()]
    cases += [{"name": name, "hex": raw.hex(), "ids": reference.encodeBytes(raw)} for name, raw in BYTES.items()]
    golden = Path(__file__).parents[1] / "crates/session/tests/fixtures/tokenizer_golden.json"
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    golden.write_text('{"reference": "rwkv 0.8.32, rwkv_vocab_v20230424", "cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
