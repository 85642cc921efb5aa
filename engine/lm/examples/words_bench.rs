//! Times the tokenising of passages word by word, as EfficientRAG's labeller reads them, and compares all pieces.
//!
//! Why: a query of EfficientRAG has some 4,000 words, each tokenised alone.
//! What: every passage as one sequence of words, cut at white space and at punctuation marks. `alone` asks the library
//! for every word; `first` goes through the passages with an empty memory of words, `again` a second time. `again` is
//! also measured in threads that share a tokenizer and in threads with a tokenizer each. CPU nanoseconds of a word
//! (Linux); the words are cut before.
//! Knobs: `words_bench FOLDER TEXTS [--threads 2]`: a folder with a tokenizer.json, and a file with a passage in each
//! line.

use hopeval_lm::tokenise::{Tokenizer, WordPieces};
use std::path::Path;
use tokenizers::Tokenizer as Library;

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let (mut places, mut threads, mut arguments) = (Vec::new(), 2, std::env::args().skip(1));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().and_then(|n| n.parse().ok()).expect("a number of threads"),
            _ => places.push(argument),
        }
    }
    let [folder, texts] = &places[..] else { panic!("words_bench FOLDER TEXTS [--threads N]") };
    let texts = std::fs::read_to_string(texts).expect("a readable file");
    let passages: Vec<Vec<&str>> = texts.lines().map(words).collect();
    let count: usize = passages.iter().map(Vec::len).sum();
    let open = || Tokenizer::open(Path::new(folder)).expect("a tokenizer");
    let each = |seconds: f64| seconds * 1e9 / count as f64;
    println!("{} passages, {count} words", passages.len());

    let library = Library::from_file(Path::new(folder).join("tokenizer.json")).expect("a tokenizer");
    let (alone, expected) = timed(|| passages.iter().map(|words| words_alone(&library, words)).collect::<Vec<_>>());
    println!("alone  {:8.1} ns a word", each(alone));
    let tokenizer = open();
    for name in ["first", "again"] {
        let (seconds, found) = timed(|| passages.iter().map(|words| pieces(&tokenizer, words)).collect::<Vec<_>>());
        assert!(found.iter().map(ids_and_characters).eq(expected.iter().cloned()), "the same pieces");
        println!("{name}  {:8.1} ns a word, {:.1} times as fast; the same pieces", each(seconds), alone / seconds);
    }
    let own: Vec<Tokenizer> = (0..threads).map(|_| open()).collect();
    own.iter().for_each(|tokenizer| passages.iter().for_each(|words| drop(pieces(tokenizer, words))));
    let shared: Vec<&Tokenizer> = (0..threads).map(|_| &tokenizer).collect();
    for (name, tokenizers) in [("one tokenizer", shared), ("one each", own.iter().collect())] {
        let work = |tokenizer| timed(|| passages.iter().for_each(|words| drop(pieces(tokenizer, words)))).0;
        let seconds: Vec<f64> = std::thread::scope(|scope| {
            let threads: Vec<_> = tokenizers.iter().map(|tokenizer| scope.spawn(|| work(tokenizer))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread's seconds")).collect()
        });
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        println!("again, {threads} threads, {name}: {:.1} ns a word", each(mean));
    }
}

/// The result of `run`, and its CPU seconds on this thread.
fn timed<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let begun = thread_seconds();
    let found = run();
    (thread_seconds() - begun, found)
}

/// CPU seconds of this thread so far.
fn thread_seconds() -> f64 {
    let about = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = about.split(' ').next().and_then(|first| first.parse::<u64>().ok());
    nanoseconds.expect("nanoseconds first") as f64 / 1e9
}

/// Letters and digits together, each other character alone, without white space.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for chunk in text.split_whitespace() {
        let mut rest = chunk;
        while let Some(first) = rest.chars().next() {
            let letters = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(if letters == 0 { first.len_utf8() } else { letters });
            words.push(word);
            rest = behind;
        }
    }
    words
}

fn pieces(tokenizer: &Tokenizer, words: &[&str]) -> WordPieces {
    tokenizer.encode_words(words).expect("pieces")
}

/// An id, its word, and its characters there.
type PieceInWord = (u32, u32, (u32, u32));

fn ids_and_characters(found: &WordPieces) -> Vec<PieceInWord> {
    let pieces = found.ids.iter().zip(found.pieces.iter().flatten());
    pieces.map(|(&id, piece)| (id, piece.word, piece.characters)).collect()
}

/// The pieces of words by one call of the library for each.
fn words_alone(library: &Library, words: &[&str]) -> Vec<PieceInWord> {
    let mut pieces = Vec::new();
    for (word, written) in (0..).zip(words) {
        let alone = library.encode_char_offsets(*written, false).expect("ids");
        let characters = alone.get_offsets().iter().map(|&(begin, end)| (begin as u32, end as u32));
        pieces.extend(alone.get_ids().iter().zip(characters).map(|(&id, characters)| (id, word, characters)));
    }
    pieces
}
