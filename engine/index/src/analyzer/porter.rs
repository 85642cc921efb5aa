//! Porter's stemmer as in "An algorithm for suffix stripping" (1980), with two departures shared by Porter's own
//! reference program and Lucene's `PorterStemmer`: `bli` -> `ble` for `abli` -> `able`, and the added `logi` ->
//! `log`.
//!
//! Not the later English stemmer ("Porter2"). Letters outside a to z count as consonants.

/// Replaces `word`, in lower case, by its stem. Words of one or two characters stay.
pub(super) fn stem(word: &mut String) {
    if word.is_ascii() {
        if word.len() > 2 {
            let mut stemmer = PorterStemmer { b: std::mem::take(word).into_bytes(), j: 0 };
            stemmer.run();
            *word = String::from_utf8(stemmer.b).unwrap_or_default();
        }
        return;
    }
    // A character outside ASCII acts as one consonant outside all suffixes. Stand-ins let the same code work on
    // bytes. Suffixes only shorten or replace the end, so the kept beginning maps back one to one.
    let chars: Vec<char> = word.chars().collect();
    if chars.len() <= 2 {
        return;
    }
    let bytes = chars.iter().map(|&c| if c.is_ascii() { c as u8 } else { 0x01 }).collect();
    let mut stemmer = PorterStemmer { b: bytes, j: 0 };
    stemmer.run();
    *word =
        stemmer.b.iter().enumerate().map(|(i, &byte)| if byte == 0x01 { chars[i] } else { char::from(byte) }).collect();
}

/// The word being stemmed and, after a matching suffix, the length before it.
struct PorterStemmer {
    b: Vec<u8>,
    j: usize,
}

impl PorterStemmer {
    fn run(&mut self) {
        self.step_1ab();
        self.step_1c();
        self.step_2();
        self.step_3();
        self.step_4();
        self.step_5();
    }

    fn is_consonant(&self, i: usize) -> bool {
        match self.b[i] {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => i == 0 || !self.is_consonant(i - 1),
            _ => true,
        }
    }

    /// m: the number of vowel-consonant sequences before the suffix.
    fn measure(&self) -> usize {
        (1..self.j).filter(|&i| self.is_consonant(i) && !self.is_consonant(i - 1)).count()
    }

    fn vowel_in_stem(&self) -> bool {
        (0..self.j).any(|i| !self.is_consonant(i))
    }

    fn ends_double_consonant(&self) -> bool {
        let n = self.b.len();
        n >= 2 && self.b[n - 1] == self.b[n - 2] && self.is_consonant(n - 1)
    }

    /// Whether the `end` bytes end in consonant, vowel, consonant, and the last is not w, x or y.
    fn ends_cvc(&self, end: usize) -> bool {
        end >= 3
            && self.is_consonant(end - 1)
            && !self.is_consonant(end - 2)
            && self.is_consonant(end - 3)
            && !matches!(self.b[end - 1], b'w' | b'x' | b'y')
    }

    fn match_suffix(&mut self, suffix: &str) -> bool {
        let found = self.b.ends_with(suffix.as_bytes());
        if found {
            self.j = self.b.len() - suffix.len();
        }
        found
    }

    fn set_suffix(&mut self, suffix: &str) {
        self.b.truncate(self.j);
        self.b.extend_from_slice(suffix.as_bytes());
    }

    /// Replaces the first matching suffix of `rules` if the measure before it is positive.
    fn replace_first(&mut self, rules: &[(&str, &str)]) {
        for &(suffix, by) in rules {
            if self.match_suffix(suffix) {
                if self.measure() > 0 {
                    self.set_suffix(by);
                }
                return;
            }
        }
    }

    fn step_1ab(&mut self) {
        if self.b.last() == Some(&b's') {
            if self.match_suffix("sses") || self.match_suffix("ies") {
                let n = self.b.len();
                self.b.truncate(n - 2);
            } else if !self.b.ends_with(b"ss") {
                self.b.pop();
            }
        }
        if self.match_suffix("eed") {
            if self.measure() > 0 {
                self.b.pop();
            }
        } else if (self.match_suffix("ed") || self.match_suffix("ing")) && self.vowel_in_stem() {
            self.b.truncate(self.j);
            if self.match_suffix("at") {
                self.set_suffix("ate");
            } else if self.match_suffix("bl") {
                self.set_suffix("ble");
            } else if self.match_suffix("iz") {
                self.set_suffix("ize");
            } else if self.ends_double_consonant() {
                if !matches!(self.b.last(), Some(b'l' | b's' | b'z')) {
                    self.b.pop();
                }
            } else {
                self.j = self.b.len();
                if self.measure() == 1 && self.ends_cvc(self.b.len()) {
                    self.b.push(b'e');
                }
            }
        }
    }

    fn step_1c(&mut self) {
        if self.match_suffix("y") && self.vowel_in_stem() {
            self.set_suffix("i");
        }
    }

    fn step_2(&mut self) {
        self.replace_first(&[
            ("ational", "ate"),
            ("tional", "tion"),
            ("enci", "ence"),
            ("anci", "ance"),
            ("izer", "ize"),
            ("bli", "ble"),
            ("alli", "al"),
            ("entli", "ent"),
            ("eli", "e"),
            ("ousli", "ous"),
            ("ization", "ize"),
            ("ation", "ate"),
            ("ator", "ate"),
            ("alism", "al"),
            ("iveness", "ive"),
            ("fulness", "ful"),
            ("ousness", "ous"),
            ("aliti", "al"),
            ("iviti", "ive"),
            ("biliti", "ble"),
            ("logi", "log"),
        ]);
    }

    fn step_3(&mut self) {
        self.replace_first(&[
            ("icate", "ic"),
            ("ative", ""),
            ("alize", "al"),
            ("iciti", "ic"),
            ("ical", "ic"),
            ("ful", ""),
            ("ness", ""),
        ]);
    }

    fn step_4(&mut self) {
        const SUFFIXES: [&str; 19] = [
            "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate",
            "iti", "ous", "ive", "ize",
        ];
        for suffix in SUFFIXES {
            if !self.match_suffix(suffix) {
                continue;
            }
            // `ion` counts only after s or t; otherwise no other suffix of the list can match.
            if suffix == "ion" && !matches!(self.b[..self.j].last(), Some(b's' | b't')) {
                return;
            }
            if self.measure() > 1 {
                self.b.truncate(self.j);
            }
            return;
        }
    }

    fn step_5(&mut self) {
        if self.match_suffix("e") {
            let m = self.measure();
            if m > 1 || m == 1 && !self.ends_cvc(self.b.len() - 1) {
                self.b.pop();
            }
        }
        if self.b.ends_with(b"ll") {
            self.j = self.b.len() - 1;
            if self.measure() > 1 {
                self.b.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_paper() {
        let pairs = "caresses caress ponies poni ties ti caress caress cats cat feed feed agreed agre plastered \
            plaster bled bled motoring motor sing sing conflated conflat troubled troubl sized size hopping hop \
            tanned tan falling fall hissing hiss fizzed fizz failing fail filing file happy happi sky sky relational \
            relat conditional condit rational ration valenci valenc hesitanci hesit digitizer digit conformabli \
            conform radicalli radic differentli differ vileli vile analogousli analog vietnamization vietnam \
            predication predic operator oper feudalism feudal decisiveness decis hopefulness hope callousness callous \
            formaliti formal sensitiviti sensit sensibiliti sensibl triplicate triplic formative form formalize \
            formal electriciti electr electrical electr hopeful hope goodness good revival reviv allowance allow \
            inference infer airliner airlin gyroscopic gyroscop adjustable adjust defensible defens irritant irrit \
            replacement replac adjustment adjust dependent depend adoption adopt homologou homolog communism commun \
            activate activ angulariti angular homologous homolog effective effect bowdlerize bowdler probate probat \
            rate rate cease ceas controll control roll roll generalizations gener oscillators oscil archaeology \
            archaeolog by by as as";
        let words: Vec<&str> = pairs.split_whitespace().collect();
        for pair in words.chunks(2) {
            let mut word = pair[0].to_owned();
            stem(&mut word);
            assert_eq!(word, pair[1], "{}", pair[0]);
        }
    }

    #[test]
    fn other_letters_are_consonants() {
        for (word, wanted) in [("cafés", "café"), ("naïvely", "naïv"), ("éé", "éé"), ("東京s", "東京")] {
            let mut stemmed = word.to_owned();
            stem(&mut stemmed);
            assert_eq!(stemmed, wanted);
        }
    }
}
