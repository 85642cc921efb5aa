//! Lists of single-hop questions, and their references to earlier answers.

use serde_json::Value;

/// The questions under `decomposed_questions`; `None` without any, or if one is no string.
pub(super) fn listed_questions(value: &Value) -> Option<Vec<String>> {
    let entries = value.get("decomposed_questions")?.as_array()?.iter();
    let texts: Option<Vec<&str>> = entries.map(|entry| entry.as_str().map(str::trim)).collect();
    let questions: Vec<String> = texts?.into_iter().filter(|text| !text.is_empty()).map(str::to_owned).collect();
    (!questions.is_empty()).then_some(questions)
}

/// The question with `answers[n - 1]` in place of `#n` and `<n>`. A reference to an answer that is not there stays.
pub(super) fn fill_references(question: &str, answers: &[String]) -> String {
    let mut filled = String::with_capacity(question.len());
    let mut rest = question;
    while let Some(at) = rest.find(['#', '<']) {
        let (before, reference) = rest.split_at(at);
        filled.push_str(before);
        let digits = reference[1..].bytes().take_while(u8::is_ascii_digit).count();
        let number = reference[1..=digits].parse::<usize>().ok();
        let closed = reference.starts_with('#') || reference[1 + digits..].starts_with('>');
        let end = 1 + digits + usize::from(reference.starts_with('<'));
        match number.and_then(|number| answers.get(number.checked_sub(1)?)).filter(|_| closed) {
            Some(answer) => {
                filled.push_str(answer);
                rest = &reference[end..];
            }
            None => {
                filled.push_str(&reference[..1]);
                rest = &reference[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_has_strings_alone() {
        let read = |list: Value| listed_questions(&json!({"decomposed_questions": list}));
        assert_eq!(read(json!([" a? ", "", "b?"])), Some(vec!["a?".to_owned(), "b?".to_owned()]));
        for wrong in [json!([]), json!([" "]), json!(["a?", 7]), json!("a?"), json!([{"question": "a?"}])] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
        assert_eq!(listed_questions(&json!(["a?"])), None);
    }

    #[test]
    fn references_become_answers() {
        let answers: Vec<String> = (1..=12).map(|n| format!("A{n}")).collect();
        let fill = |question| fill_references(question, &answers);
        assert_eq!(fill("#1 and <2>, #12's <é> of #1"), "A1 and A2, A12's <é> of A1");
        assert_eq!(
            fill("#13, #0, #, <1, < 1>, a <b> #99999999999999999999"),
            "#13, #0, #, <1, < 1>, a <b> #99999999999999999999"
        );
        assert_eq!(fill_references("#1", &["#1 <1>".to_owned()]), "#1 <1>", "answers are not filled again");
    }
}
