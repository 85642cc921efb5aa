//! Words of kinship whose meaning the authors' code tells the model from the start.

const KINSHIP: [(&str, &str); 4] = [
    ("maternal grandmother", "The maternal grandmother of a person is the mother of the person's mother."),
    ("maternal grandfather", "The maternal grandfather of a person is the father of the person's mother."),
    ("paternal grandmother", "The paternal grandmother of a person is the mother of the person's father."),
    ("paternal grandfather", "The paternal grandfather of a person is the father of the person's father."),
];

/// The meanings of the words that stand in a question.
pub(super) fn kinship_meanings(question: &str) -> impl Iterator<Item = &'static str> {
    let question = question.to_lowercase();
    KINSHIP.into_iter().filter(move |(word, _)| question.contains(word)).map(|(_, meaning)| meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_the_question_are_explained() {
        let meanings: Vec<&str> = kinship_meanings("Who is the Paternal grandfather of X?").collect();
        assert_eq!(meanings, ["The paternal grandfather of a person is the father of the person's father."]);
        assert_eq!(kinship_meanings("Who is the grandfather of X?").count(), 0);
    }
}
