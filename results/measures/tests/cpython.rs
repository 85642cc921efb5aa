//! Compares with CPython's own `re`, `str` and `unicodedata` on random strings. Skipped without `python3`.

use std::io::Write;
use std::process::{Command, Stdio};

use hopeval_measures::drop;
use hopeval_measures::has_answer::has_answer;
use hopeval_measures::normalize::{NormalizationRules, normalize, normalize_by};

/// Python's results: reads one JSON list of string pairs, prints for each pair its five results as a JSON line.
/// Characters known to this Python's Unicode, but not to 14.0, are never generated.
const PYTHON: &str = r#"
import json, re, string, sys, unicodedata
ARTICLE = re.compile(r"\b(a|an|the)\b")
GONE = {ord(c): None for c in string.punctuation}
SPACED = {ord(c): " " for c in string.punctuation + "\u2018\u2019\u00b4"}
tidy = lambda s: " ".join(s.split())
squad = lambda s: tidy(ARTICLE.sub(" ", s.lower().translate(GONE)))
trivia = lambda s: tidy(ARTICLE.sub(" ", s.lower().translate(SPACED)))
evidence = lambda s: tidy(s.lower().translate(GONE))
def as_number(s):
    try: return str(float(s))
    except ValueError: return None
def drop(s):
    parts = []
    for piece in re.split("[ -]", s):
        piece = piece.lower()
        if as_number(piece) is None: piece = piece.translate(GONE)
        piece = tidy(ARTICLE.sub(" ", as_number(piece) or piece))
        if piece: parts.append(piece)
    return " ".join(parts)
def words(s):
    found, run = [], ""
    for c in unicodedata.normalize("NFD", s):
        kind = unicodedata.category(c)[0]
        if kind in "LNM": run += c; continue
        if run: found.append(run.lower()); run = ""
        if kind not in "ZC": found.append(c.lower())
    return found + [run.lower()] if run else found
def has(answer, text):
    a, t = words(answer), words(text)
    return any(t[i:i + len(a)] == a for i in range(len(t) - len(a) + 1))
for s, answer in json.loads(sys.stdin.buffer.read().decode("utf-8")):
    print(json.dumps([squad(s), trivia(s), evidence(s), drop(s), has(answer, s)]))
"#;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 40] = [
            "a", "an", "the", "A", "The", "AN", " ", " ", " ", "-", ".", ",", "'", "_", "\u{301}", "²", "½", "é", "Σ",
            "ΑΣ", "İ", "ß", "’", "‘", "´", "`", "\u{1c}", "\u{85}", "\u{a0}", "\u{200b}", "\u{2028}", "京", "٣",
            "1,000", "5.0", "1e3", "nan", "New York", "\u{ac00}", "\n",
        ];
        let mut text = String::new();
        for _ in 0..self.below(9) {
            match self.below(8) {
                // Any character of the planes that text uses, assigned in Unicode 14 or not.
                0 => text.extend(char::from_u32(self.below(0x3000) as u32).filter(|&c| is_stable(c))),
                1 => text.push(char::from(self.below(128) as u8)),
                _ => text.push_str(PIECES[self.below(PIECES.len())]),
            }
        }
        text
    }
}

/// Blocks below U+3000 to which Unicode 15 and later added no letter, so that Python 3.11 to 3.14 agree.
fn is_stable(c: char) -> bool {
    !matches!(
        c as u32,
        0x0c00..=0x0dff | 0x0e80..=0x0eff | 0x1a00..=0x1cff | 0x0870..=0x08ff | 0x2400..=0x245f | 0x20c0..=0x20cf
    )
}

#[test]
fn twenty_thousand_random_strings() {
    let mut random = Random(20_261_121);
    let pairs: Vec<[String; 2]> = (0..20_000)
        .map(|_| {
            let text = random.text() + &random.text();
            // Half of the answers are parts of their texts.
            let chars: Vec<char> = text.chars().collect();
            let start = random.below(chars.len() + 1);
            let end = start + random.below(chars.len() + 1 - start);
            let answer = if random.below(2) == 0 { chars[start..end].iter().collect() } else { random.text() };
            [text, answer]
        })
        .collect();
    let python =
        Command::new("python3").args(["-X", "utf8", "-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        eprintln!("SKIPPED: no python3 to compare with");
        return;
    };
    python.stdin.take().unwrap().write_all(&serde_json::to_vec(&pairs).unwrap()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "python3 failed");
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut compared = 0;
    for (line, [text, answer]) in lines.lines().zip(&pairs) {
        let (squad, trivia, evidence, number, has): (String, String, String, String, bool) =
            serde_json::from_str(line).unwrap();
        assert_eq!(normalize(text), squad, "squad of {text:?}");
        assert_eq!(normalize_by(NormalizationRules::TriviaQa, text), trivia, "triviaqa of {text:?}");
        assert_eq!(normalize_by(NormalizationRules::Evidence, text), evidence, "evidence of {text:?}");
        assert_eq!(drop::normalize_answer(text), number, "drop of {text:?}");
        assert_eq!(has_answer(&[answer], text), has, "{answer:?} in {text:?}");
        compared += 1;
    }
    assert_eq!(compared, 20_000);
}
