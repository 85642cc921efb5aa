//! The overflow rules on real tokenizers, checked against their contract.

mod reference;

use super::*;
use crate::tokenise::tests::{tokenizer, tokenizers_of_known_words};
use crate::tokenise::{SpecialRole, Tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;

const DOCUMENT: &str =
    "The Socialist Revolutionary Party was a political party in Russia. Its members were known as Esers.";
const QUESTION: &str = " Review previous documents and ask some question. Question:";

static GPT2: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer("gpt2"));
static T5: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer("t5"));

fn part(text: &str) -> PromptPart {
    PromptPart { text: text.to_owned(), truncate: None }
}

fn prompt(texts: &[&str], budget: usize, overflow: &[OverflowRule]) -> Prompt {
    Prompt {
        parts: texts.iter().map(|text| part(text)).collect(),
        budget: Some(budget),
        overflow: overflow.to_vec(),
        ..Prompt::default()
    }
}

#[test]
fn what_fits_is_read_as_one_text() {
    for tokenizer in [&*GPT2, &*T5] {
        for special in [false, true] {
            let whole = tokenizer.ids("Document: a b c Question:", special).expect("ids");
            let rules = [OverflowRule::drop_part(0)];
            let texts = ["Document:", " a b", " c Question:"];
            let found = assemble(tokenizer, &prompt(&texts, whole.len(), &rules), None, special);
            let texts = texts.map(str::to_owned).to_vec();
            let report = PromptReport { tokens: whole.len(), ..PromptReport::default() };
            assert_eq!(found.expect("it fits"), AssembledPrompt { ids: whole.to_vec(), texts, report });
        }
    }
}

#[test]
fn prompt_rank_truncates_documents_and_then_the_whole() {
    // mukhal/PromptRank: each document to max_doc_len tokens, decoded; the whole to max_prompt_len with
    // truncation=True.
    for (tokenizer, special) in [(&*GPT2, false), (&*T5, true)] {
        let ids = tokenizer.ids(DOCUMENT, false).expect("ids");
        let document = tokenizer.decode(&ids[..20], false);
        let whole = format!("Document: {document} Document: {document} {QUESTION}");
        let whole = tokenizer.ids(&whole, special).expect("ids");
        let shortened = || PromptPart { text: DOCUMENT.to_owned(), truncate: Some(LengthLimit::Tokens(20)) };
        let mut parts =
            vec![part("Document: "), shortened(), part(" Document: "), shortened(), part(" "), part(QUESTION)];
        // Cut at the right: from the last part on, each as far as need be.
        let overflow = (0..parts.len())
            .rev()
            .map(|part| OverflowRule::Cut { part, to: LengthLimit::Tokens(0) })
            .collect::<Vec<_>>();
        let mut ask = Prompt { parts: parts.clone(), overflow, ..Prompt::default() };
        let found = assemble(tokenizer, &ask, None, special).expect("it fits");
        assert_eq!(found.ids, whole[..]);
        let lost = ids.len() - 20;
        assert_eq!(found.report.cut, [(1, lost), (3, lost)]);
        for most in [whole.len() - 1, whole.len() - 9] {
            let found = assemble(tokenizer, &ask, Some(most), special).expect("it is cut");
            let content = most - usize::from(special);
            assert_eq!(found.ids[..content], whole[..content]);
            if special {
                assert_eq!(found.ids[content..], [tokenizer.special_id(SpecialRole::Eos).expect("</s>")]);
            }
            assert_eq!(found.report.cut.last(), Some(&(5, whole.len() - most)));
        }
        // No question, for a prompt of the first document alone.
        parts.truncate(2);
        ask = Prompt {
            parts,
            budget: Some(12),
            overflow: vec![OverflowRule::Cut { part: 1, to: LengthLimit::Tokens(3) }],
            ..Prompt::default()
        };
        assert!(assemble(tokenizer, &ask, None, special).expect("it is cut").ids.len() <= 12);
    }
}

#[test]
fn rules_are_applied_in_order_and_no_further_than_needed() {
    let texts = ["First one.", " Second two here.", " Third."];
    let tokens = |text: &str| GPT2.ids(text, false).expect("ids").len();
    let all = tokens(&texts.concat());
    let rules = [OverflowRule::drop_part(1), OverflowRule::drop_part(0)];
    let found = assemble(&GPT2, &prompt(&texts, all - 1, &rules), None, false).expect("it fits");
    assert_eq!(found.report.dropped, [1]);
    assert_eq!(found.ids, GPT2.ids("First one. Third.", false).expect("ids")[..]);
    let found = assemble(&GPT2, &prompt(&texts, tokens(" Third."), &rules), None, false).expect("it fits");
    assert_eq!((found.report.dropped, found.report.cut), (vec![1, 0], vec![]));

    // The middle is cut by what is too much, and not below its floor of words.
    let rules = [
        OverflowRule::Cut { part: 1, to: LengthLimit::Words(2) },
        OverflowRule::Cut { part: 2, to: LengthLimit::Tokens(0) },
    ];
    let found = assemble(&GPT2, &prompt(&texts, all - 1, &rules), None, false).expect("it fits");
    assert_eq!(found.report.cut, [(1, 1)]);
    let floor = tokens("First one. Second two Third.");
    let found = assemble(&GPT2, &prompt(&texts, floor, &rules), None, false).expect("it fits");
    assert_eq!(GPT2.decode(&found.ids, false), "First one. Second two Third.");
    let found = assemble(&GPT2, &prompt(&texts, floor - 1, &rules), None, false).expect("it fits");
    assert_eq!(found.report.cut.last(), Some(&(2, 1)));
    assert!(GPT2.decode(&found.ids, false).starts_with("First one. Second two T"));
}

#[test]
fn a_part_may_be_cut_to_words() {
    let mut ask = prompt(&["one  two three ", "end"], 1000, &[]);
    ask.parts[0].truncate = Some(LengthLimit::Words(2));
    let found = assemble(&GPT2, &ask, None, false).expect("it fits");
    assert_eq!(GPT2.decode(&found.ids, false), "one  twoend");
    assert!(found.report.cut[0].1 > 0);
    ask.parts[0].truncate = Some(LengthLimit::Words(3));
    let found = assemble(&GPT2, &ask, None, false).expect("it fits");
    assert_eq!((GPT2.decode(&found.ids, false), found.report.cut), ("one  two three end".to_owned(), vec![]));
    // Between single spaces: "one", "", "two", "three", "".
    for (most, shown) in
        [(0, ""), (1, "one"), (2, "one "), (3, "one  two"), (4, "one  two three"), (5, "one  two three ")]
    {
        ask.parts[0].truncate = Some(LengthLimit::SpacedWords(most));
        let found = assemble(&GPT2, &ask, None, false).expect("it fits");
        assert_eq!(GPT2.decode(&found.ids, false), format!("{shown}end"), "{most}");
        assert_eq!(found.report.cut.is_empty(), most == 5);
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_its_numbers() {
    let error = assemble(&GPT2, &prompt(&["never cut this"], 3, &[]), None, false).expect_err("too long");
    let tokens = GPT2.ids("never cut this", false).expect("ids").len();
    assert_eq!(error.to_string(), format!("the prompt has {tokens} tokens after its overflow rules, and 3 fit"));
    // The model's own bound holds, too.
    let ask = Prompt { budget: None, ..prompt(&["never cut this"], 0, &[]) };
    assert!(matches!(assemble(&GPT2, &ask, Some(2), false), Err(PromptError::TooLong { budget: 2, .. })));
    let error = assemble(&GPT2, &prompt(&["a"], 9, &[OverflowRule::drop_part(1)]), None, false).expect_err("no part");
    assert_eq!(error.to_string(), "an overflow rule names part 1; the prompt has 1, counted from 0");
}

fn limits() -> impl Strategy<Value = LengthLimit> {
    prop_oneof![
        (0..6_usize).prop_map(LengthLimit::Tokens),
        (0..4_usize).prop_map(LengthLimit::Words),
        (0..4_usize).prop_map(LengthLimit::SpacedWords),
    ]
}

fn prompts() -> impl Strategy<Value = Prompt> {
    let texts = prop::collection::vec("[a-eéT日 .]{0,24}", 1..6);
    let rules = prop::collection::vec((0..6_usize, prop::option::of(limits())), 0..8);
    (texts, rules, 0..60_usize).prop_map(|(texts, rules, budget)| {
        let parts = texts.len();
        let rule = |(part, to): (usize, Option<LengthLimit>)| match to {
            None => OverflowRule::drop_part(part % parts),
            Some(to) => OverflowRule::Cut { part: part % parts, to },
        };
        let parts = texts.into_iter().map(|text| PromptPart { text, truncate: None }).collect();
        Prompt { parts, budget: Some(budget), overflow: rules.into_iter().map(rule).collect(), ..Prompt::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_budget_holds_and_parts_without_rules_stay_whole(prompt in prompts(), special in any::<bool>()) {
        let budget = prompt.budget.expect("given");
        for tokenizer in [&*GPT2, &*T5] {
            match assemble(tokenizer, &prompt, None, special) {
                Ok(found) => {
                    prop_assert!(found.ids.len() <= budget);
                    prop_assert_eq!(found.report.tokens, found.ids.len());
                    for &part in found.report.dropped.iter().chain(found.report.cut.iter().map(|(part, _)| part)) {
                        prop_assert!(prompt.overflow.iter().any(|rule| rule.parts().contains(&part)));
                    }
                    let text = GPT2.decode(&found.ids, true);
                    let mut at = 0;
                    let touched =
                        |part| found.report.dropped.contains(&part) || found.report.cut.iter().any(|cut| cut.0 == part);
                    for (n, part) in prompt.parts.iter().enumerate() {
                        // The bytes of GPT-2's tokens decode to just the text; T5's vocabulary is too small for that.
                        if std::ptr::eq(tokenizer, &*GPT2) && !touched(n) {
                            let found = text[at..].find(&part.text);
                            prop_assert!(found.is_some(), "part {} of {:?} is not whole in {:?}", n, &prompt, text);
                            at += found.expect("just seen") + part.text.len();
                        }
                    }
                    if found.report.dropped.is_empty() && found.report.cut.is_empty() {
                        let whole: String = prompt.parts.iter().map(|part| &part.text[..]).collect();
                        prop_assert_eq!(&found.ids[..], &tokenizer.ids(&whole, special).expect("ids")[..]);
                    }
                }
                Err(PromptError::TooLong { tokens, budget: said }) => {
                    prop_assert_eq!(said, budget);
                    prop_assert!(tokens > budget);
                    // Whatever no rule could touch is too long by itself, or some rule has a floor.
                    let dropped = |part| prompt.overflow.contains(&OverflowRule::drop_part(part));
                    prop_assert!(!(0..prompt.parts.len()).all(dropped) || tokens <= 2);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}

/// Texts like those of few-shot prompts, with everything that tokenizers treat in a special way near a part's end.
fn texts() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "Question",
        ":",
        " who",
        " made",
        " it",
        "?",
        "\n",
        "\n\n",
        " ",
        "  ",
        "Answer:",
        " 1987",
        "12",
        "'s",
        " 't",
        "I'LL",
        "\t",
        "日本",
        " é",
        "e\u{301}",
        " \u{301}",
        "\u{a0}",
        "\u{2028}",
        "</s>",
        " </s>",
        "<|endoftext|>",
        "[SEP]",
        "<mask>",
        " <mask>",
        "<extra_id_0>",
        "#",
        " #",
        "...",
        " .",
        "-",
        "\r\n",
        "\u{600}",
        "\u{2581}",
        " \u{2581}x",
        "😀",
        "the film",
        " director of the film",
        "\u{0}",
        "\u{ad}",
    ]);
    prop::collection::vec(words, 0..14).prop_map(|words| words.concat())
}

fn few_shot_prompts() -> impl Strategy<Value = Prompt> {
    let parts = prop::collection::vec((texts(), prop::option::weighted(0.2, limits())), 1..8);
    let rules = prop::collection::vec((0..8_usize, 1..4_usize, prop::option::of(limits())), 0..9);
    let packed = prop::option::weighted(0.3, (0..8_usize, 0..60_usize, any::<bool>()));
    (parts, rules, prop::option::weighted(0.9, 0..90_usize), any::<bool>(), packed).prop_map(
        |(parts, rules, budget, count_parts, packed)| {
            let most = parts.len();
            let rule = |(part, count, to): (usize, usize, Option<LengthLimit>)| match to {
                None => OverflowRule::Drop { first: part % most, count: count.min(most - part % most) },
                Some(to) => OverflowRule::Cut { part: part % most, to },
            };
            let packing = packed.map(|(shots, context_tokens, spares_longest)| ShotPacking {
                shots: shots.min(most),
                context_tokens,
                answer_tokens: 3,
                spares_longest,
            });
            let overflow = rules.into_iter().map(rule).collect();
            let parts = parts.into_iter().map(|(text, truncate)| PromptPart { text, truncate }).collect();
            Prompt { parts, budget, overflow, count_parts, packing }
        },
    )
}

static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    let words = ["gpt2", "opt", "roberta", "qwen2", "bert-uncased", "electra"];
    let sentencepiece = ["t5", "llama", "llama-legacy", "deberta-v2", "xlm-roberta"];
    words.into_iter().chain(sentencepiece).map(tokenizer).chain(tokenizers_of_known_words()).collect()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_give_what_the_whole_gives(prompt in few_shot_prompts(), most in 0..120_usize, special in any::<bool>()) {
        for tokenizer in &*TOKENIZERS {
            let found = assemble(tokenizer, &prompt, Some(most), special);
            let expected = reference::assemble_whole(tokenizer, &prompt, Some(most), special);
            match (found, expected) {
                (Ok(mut found), Ok(mut expected)) => {
                    let counts = std::mem::take(&mut found.report.part_tokens);
                    let expected_counts = std::mem::take(&mut expected.report.part_tokens);
                    if expected.report.cut.is_empty() {
                        prop_assert_eq!(&counts, &expected_counts);
                    }
                    prop_assert_eq!(counts.len(), if prompt.count_parts { prompt.parts.len() } else { 0 });
                    prop_assert!(counts.iter().sum::<usize>() <= found.report.tokens);
                    prop_assert_eq!(found, expected);
                }
                (found, expected) => prop_assert_eq!(format!("{found:?}"), format!("{expected:?}")),
            }
        }
    }
}
