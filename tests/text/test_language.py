"""The language of a text, where it can be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.text.language import covered_languages, language_of, uncovered_language

GRAMMAR = Path(__file__).parents[2] / "demur_train" / "refusals" / "grammar"


TWELVE = [
    ("How do I sharpen the knife that is in my kitchen?", "en"),
    ("Wie schärfe ich das Messer, und was kann ich mit der alten Klinge tun?", "de"),
    ("Comment est-ce que je peux aiguiser le couteau qui est dans la cuisine ?", "fr"),
    ("¿Cómo puedo afilar el cuchillo que está en la cocina para mi madre?", "es"),
    ("Come posso affilare il coltello che è nella cucina di mia madre?", "it"),
    ("Como é que eu posso afiar a faca que não corta em casa do meu pai?", "pt"),
    ("Как заточить кухонный нож?", "ru"),
    ("怎样磨厨房的刀？", "zh"),
    ("包丁はどうやって研ぎますか。", "ja"),
    ("부엌칼은 어떻게 가나요?", "ko"),
    ("كيف أشحذ سكين المطبخ؟", "ar"),
    ("रसोई का चाकू कैसे तेज करें?", "hi"),
]


@pytest.mark.parametrize(("text", "language"), TWELVE)
def test_the_twelve_are_told(text: str, language: str) -> None:
    """An everyday question in each language is named."""
    assert language_of(text) == language


@pytest.mark.parametrize("text", ["", "ok", "42", "Kubernetes", "print(x)", "!!!"])
def test_what_cannot_be_told_is_not_guessed(text: str) -> None:
    """Too little text is None."""
    assert language_of(text) is None


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    """Whatever the text, the answer is one of the twelve or None."""
    assert language_of(text) in {None, "en", "de", "fr", "es", "it", "pt", "ru", "zh", "ja", "ko", "ar", "hi"}


@given(st.lists(st.sampled_from(["the", "La", "un", "e", "42", "x1is", "der_und", "it's", "?", "\n"]), max_size=30))
def test_a_sign_beyond_ascii_changes_nothing(words: list[str]) -> None:
    """The words of a plain text are those that are found where a sign that is no letter makes it other than plain."""
    text = " ".join(words)
    assert language_of(text) == language_of(f"{text} …")


def test_no_count_runs_into_the_next() -> None:
    """A text that folds to more small words than it has characters still counts for its own language alone."""
    assert language_of("\u1e99" * 2000) == "es"


def test_the_covered_languages_are_those_with_phrases() -> None:
    """The declared list is the twelve, and each of them has a file of phrases where the training part is there."""
    assert covered_languages() == {language for _, language in TWELVE}
    if GRAMMAR.exists():
        assert covered_languages() == {path.stem for path in GRAMMAR.glob("??.toml")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dutch (nl)", "Snijd de ui eerst in dunne ringen en bak ze daarna met een beetje boter tot ze bruin zijn."),
        ("Swedish (sv)", "Skala potatisen och koka den i saltat vatten tills den är mjuk, men inte för länge."),
        ("Norwegian (no)", "Du kan ikke se nordlyset om sommeren, fordi det er for lyst. Kom heller etter oktober."),
        (
            "Finnish (fi)",
            "Keitä perunat ensin, mutta älä kuori niitä ennen kuin ne ovat jäähtyneet. Sitten voit paistaa ne.",
        ),
        ("Hungarian (hu)", "A tésztát hagyd pihenni, mert csak így lesz könnyű, majd süsd meg egy forró serpenyőben."),
        ("Polish (pl)", "Najpierw umyj jabłka, a potem pokrój je i ugotuj z cukrem, aż będą miękkie."),
        ("Czech (cs)", "Nejprve omyjte jablka a pak je nakrájejte. Když jsou měkká, můžete přidat cukr nebo skořici."),
        ("Slovak (sk)", "Najprv umyte jablká a potom ich nakrájajte. Keď sú mäkké, môžete pridať cukor alebo škoricu."),
        ("Romanian (ro)", "Spală merele și taie-le în felii, apoi fierbe-le cu puțin zahăr până când sunt moi."),
        ("Turkish (tr)", "Önce elmaları yıkayın, sonra dilimleyin ve biraz şeker ile yumuşayana kadar pişirin."),
        ("Vietnamese (vi)", "Bạn hãy rửa táo trước, sau đó cắt lát và nấu với một ít đường cho đến khi mềm."),
        ("Filipino (tl)", "Hugasan muna ang mga mansanas, hiwain ito, at lutuin sa kaunting asukal hanggang lumambot."),
        ("Swahili (sw)", "Osha matunda kwanza, kisha kata vipande na upike kwa sukari kidogo hadi yawe laini sana."),
        (
            "Catalan (ca)",
            "Renteu les pomes amb aigua i talleu-les; després podeu coure-les amb una mica de sucre perquè són dures.",
        ),
        (
            "Galician (gl)",
            "Lava as mazás cunha pouca de auga e, cando estean brandas, bótalles máis azucre coa culler, pero non unha chea.",
        ),
        (
            "Basque (eu)",
            "Garbitu sagarrak eta moztu; gero egosi ur pixka batekin, baina ez denbora luzez, oso bigunak dira eta.",
        ),
        (
            "Icelandic (is)",
            "Þvoðu eplin og skerðu þau svo í sneiðar, en ekki sjóða þau lengi því að þá verða þau mjög mjúk.",
        ),
        (
            "Welsh (cy)",
            "Golchwch yr afalau ac yna eu coginio gyda siwgr, ond nid yn rhy hir, fel eich bod chi yn eu cadw.",
        ),
        (
            "Ukrainian (uk)",
            "Спочатку помийте яблука, а потім поріжте їх і варіть із цукром, доки вони не стануть м'якими.",
        ),
        (
            "Bulgarian (bg)",
            "Първо измийте ябълките, след това ги нарежете и ги сварете. Ако са твърди, трябва да ги оставите още.",
        ),
        ("Serbian (sr)", "Прво оперите јабуке, а затим их исеците и кувајте са шећером, али само док не буду мекане."),
        ("Persian (fa)", "اول سیب‌ها را بشویید و بعد آن را با کمی شکر بپزید تا نرم شود، اما نه برای مدت زیاد."),
        ("Urdu (ur)", "پہلے سیب دھو لیں اور پھر ان کو تھوڑی چینی کے ساتھ پکائیں جب تک وہ نرم نہیں ہوتے۔"),
        ("Marathi (mr)", "आधी सफरचंद धुवा आणि नंतर साखरेत शिजवा. ते मऊ झाले नाही तर अजून थोडा वेळ ठेवा, पण जास्त नाही."),
        ("Greek (el)", "Πλύνετε πρώτα τα μήλα και μετά βράστε τα με λίγη ζάχαρη."),
        ("Hebrew (he)", "קודם שטפו את התפוחים ואחר כך בשלו אותם עם מעט סוכר."),
        ("Thai (th)", "ล้างแอปเปิลก่อน แล้วหั่นเป็นชิ้นและต้มกับน้ำตาลเล็กน้อย"),
        ("Georgian (ka)", "ჯერ გარეცხეთ ვაშლი, შემდეგ დაჭერით და მოხარშეთ შაქართან ერთად."),
        ("Tamil (ta)", "முதலில் ஆப்பிள்களைக் கழுவி, பிறகு சர்க்கரையுடன் வேகவைக்கவும்."),
        ("Danish (da) or Norwegian (no)", "Vask og kog det med sukker, men ikke for lenge."),
        ("Croatian (hr) or Serbian (sr) or Bosnian (bs)", "Ako nije dovoljno, možete dodati još, ali samo malo."),
    ],
    ids=lambda value: value if value.endswith(")") else "",
)
def test_an_uncovered_language_is_named(name: str, text: str) -> None:
    """A recipe in a language that the detector does not cover is told by its script or small words; twins are named together."""
    assert uncovered_language(text) == name


@pytest.mark.parametrize(
    "text",
    [
        *[text for text, _ in TWELVE],
        "",
        "42",
        "Ja.",
        "Amsterdam",
        "Αθήνα",
        "นครสวรรค์",
        "Jan van den Berg, Anna de Vries, Łukasz Wiśniewski, Dvořák",
        "α, β and γ are small",
        "for i in range(10): print(i, len(na), op, av, til)",
        '{"id": 7, "type": "van", "men": ["dan", "met"], "url": "https://example.org/nl/het/een"}',
        "var size = 16",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: default-deny",
        "In Dutch you say “het is een mooie dag”, which is what my aunt says when it rains.",
        "Swedish: Jag älskar dig. English: I love you. German: Ich liebe dich. French: Je t'aime.",
        "šarrum šapārum ana ilīm šūbû",
        "Nǐ hǎo, wǒ hěn gāoxìng rènshi nǐ.",
        "Watashi wa gakusei desu. Kore wa hon desu ka?",
        "Aap kaise hain? Main theek hoon, aur aap?",
        "/ðə kwɪk braʊn fɒks dʒʌmps əʊvə/",
        "Tu és minha, e eu não sei se te amo ou não.",
        "а) первое; б) второе; в) третье; г) четвёртое; д) пятое; е) шестое; ж) седьмое; з) восьмое",
    ],
)
def test_what_is_covered_or_cannot_be_told_is_no_uncovered_language(text: str) -> None:
    """A covered language, code, names, lists, transcriptions, quotations and single words are never taken for another language."""
    assert uncovered_language(text) is None


@given(st.text(max_size=600))
def test_any_text_has_an_uncovered_language_or_none(text: str) -> None:
    """Whatever the characters, the answer is a name with its code, or None."""
    found = uncovered_language(text)
    assert found is None or found.endswith(")")
