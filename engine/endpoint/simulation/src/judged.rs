//! Prompts that ask whether a prediction is right, as judges ask: a line `Prediction:`, a line `Correct answer:`, and
//! `Yes or No:` or `{"response": "yes"}`. The reply is yes if the prediction has the words of the answer in a row,
//! whatever their case and punctuation.

/// A prediction with the simulated judge's word about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JudgedPrediction {
    is_right: bool,
    wants_json: bool,
}

impl JudgedPrediction {
    /// The prediction of a judge's prompt; `None` for other prompts.
    pub(crate) fn of_prompt(prompt: &str) -> Option<Self> {
        let wants_json = prompt.contains("{\"response\": \"yes\"}");
        if !wants_json && !prompt.trim_end().ends_with("Yes or No:") {
            return None;
        }
        let field = |name: &str| prompt.lines().rev().find_map(|line| line.strip_prefix(name));
        let (prediction, answer) = (words(field("Prediction:")?), words(field("Correct answer:")?));
        let is_right = !answer.is_empty() && prediction.windows(answer.len()).any(|found| found == answer);
        Some(Self { is_right, wants_json })
    }

    /// The reply; a mistaken judge says the opposite, and a misformed reply has neither word.
    pub(crate) fn write_reply(self, is_mistaken: bool, is_misformed: bool) -> String {
        if is_misformed {
            return "I would have to look that up.".to_owned();
        }
        let says_yes = self.is_right != is_mistaken;
        match (self.wants_json, says_yes) {
            (true, true) => "{\"response\": \"yes\"}".to_owned(),
            (true, false) => "{\"response\": \"no\"}".to_owned(),
            (false, true) => "Yes".to_owned(),
            (false, false) => "No, it does not.".to_owned(),
        }
    }
}

/// The words of a text in small letters.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(prediction: &str, end: &str) -> Option<String> {
        let prompt = format!("Decide.\nQuestion: Where?\nPrediction: {prediction}\nCorrect answer: New York\n{end}");
        JudgedPrediction::of_prompt(&prompt).map(|judged| judged.write_reply(false, false))
    }

    #[test]
    fn a_prediction_with_the_answer_in_it_is_right() {
        let word = |prediction| reply(prediction, "Is it right? Write Yes or No:").unwrap();
        assert_eq!(word("in NEW York, I think"), "Yes");
        for wrong in ["York, New", "Newer York", ""] {
            assert_eq!(word(wrong), "No, it does not.", "{wrong}");
        }
        let json = "Write {\"response\": \"yes\"} or {\"response\": \"no\"}";
        assert_eq!(reply("New York", json).unwrap(), "{\"response\": \"yes\"}");
        assert_eq!(reply("New York", "Answer:"), None, "nobody asks whether it is right");
    }

    #[test]
    fn mistakes_and_lost_forms_are_as_asked_for() {
        let judged = JudgedPrediction { is_right: true, wants_json: false };
        assert_eq!(judged.write_reply(true, false), "No, it does not.");
        assert_eq!(judged.write_reply(true, true), "I would have to look that up.");
    }
}
