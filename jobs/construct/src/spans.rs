//! Finds an answer, or a name, among the words of a chunk.

use crate::cues::{asks_for, relation_cues};
use crate::library::ChunkText;
use crate::steps::QuestionStep;
use crate::words::{bare_name, folded_words, is_adjective_of, is_content, lower_case, split_words};
use std::collections::BTreeSet;
use std::ops::Range;

/// A chunk as models see it, cut into words.
#[derive(Clone, Debug)]
pub(crate) struct ChunkWords {
    /// Title, colon, text.
    pub(crate) text: String,
    /// Its words.
    pub(crate) words: Vec<String>,
    /// Its words in lower case.
    pub(crate) folded: Vec<String>,
    /// The title's name, in words and lower case.
    name: Vec<String>,
    /// The sentence of each word; `None` in the title.
    sentences: Vec<Option<u32>>,
}

impl ChunkWords {
    pub(crate) fn from_chunk(chunk: &ChunkText) -> Self {
        let text = chunk.written();
        let before = text.len() - chunk.text.len();
        let found = split_words(&text);
        let mut sentences = Vec::with_capacity(found.len());
        let mut ended = 0;
        for word in &found {
            let at = word.start.checked_sub(before);
            sentences.push(at.map(|at| match chunk.sentences.as_slice() {
                [] => ended,
                ends => ends.partition_point(|&end| end as usize <= at) as u32,
            }));
            if at.is_some() && matches!(word.text, "." | "!" | "?") {
                ended += 1;
            }
        }
        Self {
            words: found.iter().map(|word| word.text.to_owned()).collect(),
            folded: found.iter().map(|word| lower_case(word.text)).collect(),
            name: folded_words(bare_name(&chunk.title)),
            sentences,
            text,
        }
    }

    /// The words of a step's answer: its best occurrence.
    ///
    /// An occurrence is the whole answer. If the chunk lacks it, an occurrence is the answer without its parentheses;
    /// failing this, the longest run of its words, or of their adjectives (`South Korean` of `South Korea`), with at
    /// least half of its content words. The best one is in the sentence named by the dataset, else in the sentence with
    /// the most words that ask for it. Of equal ones the first wins; occurrences in the title come last.
    pub(crate) fn answer_words(&self, step: &QuestionStep, answers: &[&str]) -> Option<Range<usize>> {
        self.whole_answer(step, answers).or_else(|| {
            let parts = answers.iter().flat_map(|answer| self.longest_runs(&folded_words(answer)));
            self.best_occurrence(step, parts.collect())
        })
    }

    /// As [`ChunkWords::answer_words`], but never a part of an answer.
    pub(crate) fn whole_answer(&self, step: &QuestionStep, answers: &[&str]) -> Option<Range<usize>> {
        let shorter = |answer: &&str| answer.split_once(" (").map(|(shorter, _)| folded_words(shorter));
        let variants = answers.iter().flat_map(|answer| [Some(folded_words(answer)), shorter(answer)]).flatten();
        variants
            .map(|variant| self.occurrences(&variant))
            .find(|found| !found.is_empty())
            .and_then(|found| self.best_occurrence(step, found))
    }

    /// The words of a step's subjects: the first occurrence of each name, in the title or the text, without the part
    /// that tells namesakes apart. A step without names asks about the title's name if its question has it, else about
    /// the longest run of words shared by question and chunk and with a capital.
    pub(crate) fn subject_words(&self, step: &QuestionStep) -> Vec<Range<usize>> {
        if !step.about.is_empty() {
            let first = |name: &String| self.occurrences(&folded_words(bare_name(name))).into_iter().next();
            return step.about.iter().filter_map(first).collect();
        }
        let asked = folded_words(&step.asks);
        let has_title = !self.name.is_empty() && asked.windows(self.name.len()).any(|words| words == self.name);
        if has_title { Some(0..self.name.len()).into_iter().collect() } else { self.shared_name(&step.asks, &asked) }
    }

    /// The first of the longest runs of words shared by the chunk and a question and with a name in them.
    fn shared_name(&self, question: &str, asked: &[String]) -> Vec<Range<usize>> {
        // A capital at the beginning of a question names nobody.
        let named: Vec<bool> = split_words(question)
            .iter()
            .enumerate()
            .map(|(at, word)| at > 0 && is_content(&asked[at]) && !word.text.starts_with(char::is_lowercase))
            .collect();
        let mut best: Option<(usize, Range<usize>)> = None;
        for at in 0..self.folded.len() {
            for start in 0..asked.len() {
                let same = |(a, b): &(&String, &String)| a == b;
                let length = self.folded[at..].iter().zip(&asked[start..]).take_while(same).count();
                let content = |n: &usize| is_content(&asked[start + n]);
                let (Some(first), Some(last)) = ((0..length).find(content), (0..length).rfind(content)) else {
                    continue;
                };
                if first > 0 || !named[start..=start + last].contains(&true) {
                    continue;
                }
                let count = (0..=last).filter(content).count();
                if best.as_ref().is_none_or(|(most, _)| count > *most) {
                    best = Some((count, at..at + last + 1));
                }
            }
        }
        best.map(|(_, place)| place).into_iter().collect()
    }

    fn occurrences(&self, wanted: &[String]) -> Vec<Range<usize>> {
        if !wanted.iter().any(|word| word.chars().any(hopeval_pytext::is_word)) {
            return Vec::new();
        }
        let starts = (0..self.folded.len()).filter(|&at| self.folded[at..].starts_with(wanted));
        starts.map(|at| at..at + wanted.len()).collect()
    }

    fn longest_runs(&self, wanted: &[String]) -> Vec<Range<usize>> {
        let content = |words: &[String]| words.iter().filter(|word| is_content(word)).count();
        let enough = content(wanted).div_ceil(2).max(1);
        let mut best = Vec::new();
        let mut most = 0;
        for start in 0..wanted.len() {
            for at in 0..self.folded.len() {
                let same = |(a, b): &(&String, &String)| a == b || is_adjective_of(a, b);
                let length = self.folded[at..].iter().zip(&wanted[start..]).take_while(same).count();
                let count = content(&self.folded[at..at + length]);
                if count < enough || count < most {
                    continue;
                }
                if count > most {
                    best.clear();
                }
                most = count;
                best.push(at..at + length);
            }
        }
        best
    }

    fn best_occurrence(&self, step: &QuestionStep, mut found: Vec<Range<usize>>) -> Option<Range<usize>> {
        found.sort_by_key(|place| place.start);
        let asked: Vec<String> = folded_words(&step.asks).into_iter().filter(|word| is_content(word)).collect();
        let cues = relation_cues(&step.relation);
        let worth = |place: &Range<usize>| {
            let sentence = self.sentences[place.start];
            let named = sentence.is_some() && sentence == step.passage.sentence;
            let around = (0..self.folded.len()).filter(|&at| self.sentences[at] == sentence && !place.contains(&at));
            let asking = around
                .map(|at| self.folded[at].as_str())
                .filter(|word| is_content(word) && (asks_for(&asked, word) || asks_for(&cues, word)))
                .collect::<BTreeSet<_>>()
                .len();
            (named, sentence.is_some(), asking)
        };
        // The first of the best.
        found.into_iter().rev().max_by_key(worth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::StepPassage;

    fn chunk(sentences: &[&str]) -> ChunkWords {
        let record = hopeval_datasets::PassageRecord::from_sentences("KGOT".to_owned(), sentences, " ");
        ChunkWords::from_chunk(&ChunkText {
            title: record.title,
            text: record.text,
            sentences: record.sentences,
            ..ChunkText::default()
        })
    }

    fn step(asks: &str, sentence: Option<u32>) -> QuestionStep {
        QuestionStep {
            asks: asks.to_owned(),
            subject: None,
            about: Vec::new(),
            relation: String::new(),
            needs: Vec::new(),
            depth: 1,
            needed_by: Vec::new(),
            answer: String::new(),
            passage: StepPassage { sentence, ..StepPassage::default() },
        }
    }

    fn text(chunk: &ChunkWords, place: Option<Range<usize>>) -> Option<String> {
        place.map(|place| format!("{}@{}", chunk.words[place.clone()].join(" "), place.start))
    }

    #[test]
    fn the_sentence_that_is_named_or_that_asks_decides() {
        let chunk = chunk(&["KGOT was sold to Alaska in 1990.", "Its studios are in Alaska.", "Alaska is cold."]);
        assert_eq!(
            text(&chunk, chunk.answer_words(&step("Where are its studios?", None), &["Alaska"])).unwrap(),
            "Alaska@14"
        );
        assert_eq!(
            text(&chunk, chunk.answer_words(&step("Where are its studios?", Some(2)), &["Alaska"])).unwrap(),
            "Alaska@16"
        );
        assert_eq!(text(&chunk, chunk.answer_words(&step("", None), &["alaska"])).unwrap(), "Alaska@6");
        assert_eq!(
            text(&chunk, chunk.answer_words(&step("", None), &["KGOT"])).unwrap(),
            "KGOT@2",
            "the title is the last resort"
        );
        assert_eq!(chunk.answer_words(&step("", None), &["Kodiak"]), None);
        assert_eq!(chunk.answer_words(&step("", None), &["?"]), None);
    }

    #[test]
    fn a_part_of_the_answer_is_better_than_nothing() {
        let chunk = chunk(&["Dalia lies by Nettleminster.", "It is a South Dalian town."]);
        let found = |answer: &str| text(&chunk, chunk.answer_words(&step("", None), &[answer]));
        assert_eq!(found("Nettleminster, Dalia").unwrap(), "Dalia@2");
        assert_eq!(found("Nettleminster (town)").unwrap(), "Nettleminster@5");
        assert_eq!(found("South Dalia").unwrap(), "South Dalian@10", "its adjective, and not the first word alone");
        assert_eq!(found("the town of Ironville in Dalia by the sea").as_deref(), None);
    }

    #[test]
    fn what_a_step_asks_about_is_a_name() {
        let chunk = chunk(&["Deron Cherry played for the Kansas City Chiefs.", "The Giant of Africa is Nigeria."]);
        let found = |asks: &str, about: &[&str]| {
            let about = about.iter().map(|name| (*name).to_owned()).collect();
            let step = QuestionStep { about, ..step(asks, None) };
            chunk.subject_words(&step).into_iter().map(|place| text(&chunk, Some(place)).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(found("", &["Kansas City (Missouri)", "Nigeria", "Kodiak"]), ["Kansas City@7", "Nigeria@16"]);
        assert_eq!(found("Who owns KGOT?", &[]), ["KGOT@0"]);
        assert_eq!(found("Which country is called the 'Giant of Africa'?", &[]), ["Giant of Africa@12"]);
        assert_eq!(found("The team who played?", &[]), [""; 0], "no word with a capital");
    }

    #[test]
    fn paragraphs_without_sentences_are_cut_at_full_stops() {
        let whole = ChunkText { text: "A b. C d.".to_owned(), ..ChunkText::default() };
        assert_eq!(ChunkWords::from_chunk(&whole).sentences, [0, 0, 0, 1, 1, 1].map(Some));
    }
}
