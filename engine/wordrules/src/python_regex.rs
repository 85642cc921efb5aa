//! Translates patterns of Python's `re` into the syntax of `fancy-regex`.
//!
//! The two differ in what looks alike: `\w`, `\s` and `\b` are other characters, `$` also stands before a line break at
//! the end, `\Z` is the very end, `{,3}` begins at 0, `[` within a class is a character, and flags have other names.
//! Every character is therefore read by Python's rules and written in the one way that means the same there. Groups are
//! numbered, names or not. A pattern that Python itself refuses is in no file of spaCy, so not every such one is
//! refused.
//!
//! A pattern is given back as its outermost alternatives. Each is compiled alone or with its neighbours
//! (`python_pattern.rs`); one that a reference to a group would tear apart stays whole.

mod class;

use class::{CharacterClass, WORD_CLASS};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The longest pattern, in characters. Most of spaCy are below 20,000; one of French has 1,450,369.
const LONGEST_PATTERN: usize = 4 << 20;

/// The places where `$` matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DollarPlace {
    /// Only the end: enough for texts that do not end in a line break, and much faster.
    End,
    /// The end, and before a line break at the end, as in Python.
    EndOrLastBreak,
}

/// One of the outermost alternatives of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternAlternative {
    /// As fancy-regex has it.
    pub(crate) text: String,
    /// Its beginning in Python's pattern, in characters.
    pub(crate) position: usize,
    /// Whether an automaton can search it: it looks neither ahead nor behind, and repeats no group's text.
    pub(crate) plain: bool,
}

/// A mistake in a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternMistake {
    /// The place in Python's pattern, in characters.
    pub(crate) position: usize,
    /// The mistake.
    pub(crate) reason: String,
}

/// The alternatives of Python's `pattern`.
pub(crate) fn translate(pattern: &str, dollar: DollarPlace) -> Result<Vec<PatternAlternative>, PatternMistake> {
    let characters: Vec<char> = pattern.chars().collect();
    if characters.len() > LONGEST_PATTERN {
        let reason = format!("a pattern of more than {LONGEST_PATTERN} characters");
        return Err(PatternMistake { position: LONGEST_PATTERN, reason });
    }
    let mut translator = PatternTranslator::new(&characters, dollar);
    translator.translate_all()?;
    Ok(translator.into_alternatives())
}

/// The inline flags in force.
#[derive(Clone, Copy, Debug, Default)]
struct InlineFlags {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    verbose: bool,
}

/// A group whose end is still to come.
struct OpenGroup {
    /// Its beginning.
    position: usize,
    /// The flags outside.
    outside: InlineFlags,
}

struct PatternTranslator<'p> {
    pattern: &'p [char],
    at: usize,
    dollar: DollarPlace,
    flags: InlineFlags,
    groups: Vec<OpenGroup>,
    /// Groups that have a number, so far.
    numbered: usize,
    /// The numbers of groups with names.
    names: BTreeMap<String, usize>,
    done: Vec<PatternAlternative>,
    current: PatternAlternative,
    /// Whether a group is named or numbered somewhere.
    refers: bool,
    /// Whether anything stands before the current place that is no global flag.
    begun: bool,
}

impl<'p> PatternTranslator<'p> {
    fn new(pattern: &'p [char], dollar: DollarPlace) -> Self {
        let current = PatternAlternative { text: String::new(), position: 0, plain: true };
        Self {
            pattern,
            at: 0,
            dollar,
            flags: InlineFlags::default(),
            groups: Vec::new(),
            numbered: 0,
            names: BTreeMap::new(),
            done: Vec::new(),
            current,
            refers: false,
            begun: false,
        }
    }

    fn peek(&self) -> Option<char> {
        self.pattern.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let here = self.pattern[self.at..].iter().copied();
        let found = text.chars().eq(here.take(text.chars().count()));
        self.at += if found { text.chars().count() } else { 0 };
        found
    }

    fn mistake<T>(&self, position: usize, reason: impl Into<String>) -> Result<T, PatternMistake> {
        Err(PatternMistake { position, reason: reason.into() })
    }

    fn push(&mut self, text: &str) {
        self.current.text.push_str(text);
    }

    /// A part that only a backtracking engine can match.
    fn push_fancy(&mut self, text: &str) {
        self.push(text);
        self.current.plain = false;
    }

    fn translate_all(&mut self) -> Result<(), PatternMistake> {
        while let Some(c) = self.next() {
            let from = self.at - 1;
            let was_begun = std::mem::replace(&mut self.begun, true);
            match c {
                '\\' => self.escape(from)?,
                '[' => self.class(from)?,
                '(' => self.group(from, was_begun)?,
                ')' => self.close_group(from)?,
                '|' => self.alternative(),
                '^' if self.flags.multi_line => self.push("(?m:^)"),
                '^' => self.push("^"),
                '$' => self.dollar(),
                '.' if self.flags.dot_all => self.push("(?s:.)"),
                '.' => self.push("[^\\x{a}]"),
                '*' | '+' | '?' => self.quantifier(&c.to_string()),
                '{' => self.counts(),
                '#' if self.flags.verbose => while self.next().is_some_and(|c| c != '\n') {},
                ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' if self.flags.verbose => {}
                c => self.literal(u32::from(c)),
            }
        }
        match self.groups.pop() {
            Some(open) => self.mistake(open.position, "a group without its end"),
            None => Ok(()),
        }
    }

    fn into_alternatives(mut self) -> Vec<PatternAlternative> {
        self.done.push(self.current);
        let mut alternatives = self.done;
        if self.refers {
            // Groups are numbered through the whole pattern.
            let texts: Vec<&str> = alternatives.iter().map(|one| one.text.as_str()).collect();
            alternatives = vec![PatternAlternative { text: texts.join("|"), position: 0, plain: false }];
        }
        for one in alternatives.iter_mut().filter(|_| self.flags.ignore_case) {
            one.text = format!("(?i:{})", one.text);
        }
        alternatives
    }

    fn alternative(&mut self) {
        if self.groups.is_empty() {
            let following = PatternAlternative { text: String::new(), position: self.at, plain: true };
            self.done.push(std::mem::replace(&mut self.current, following));
        } else {
            self.push("|");
        }
    }

    /// A character by its code. Half of a surrogate pair stands in no text, so it never matches.
    fn literal(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) if c.is_alphanumeric() => self.current.text.push(c),
            Some(_) => write!(self.current.text, "\\x{{{code:x}}}").expect("a text can be written to"),
            None => self.push(&CharacterClass::default().written(false)),
        }
    }

    fn dollar(&mut self) {
        match (self.flags.multi_line, self.dollar) {
            (true, _) => self.push("(?m:$)"),
            (false, DollarPlace::End) => self.push("\\z"),
            (false, DollarPlace::EndOrLastBreak) => self.push_fancy("(?=\\x{a}?\\z)"),
        }
    }

    /// A quantifier, with the sign behind it that makes it lazy or possessive.
    fn quantifier(&mut self, counts: &str) {
        self.push(counts);
        if self.eat("?") {
            self.push("?");
        } else if self.eat("+") {
            self.push_fancy("+");
        }
    }

    /// `{3}`, `{3,}`, `{,3}`, `{3,4}`; anything else is a brace.
    fn counts(&mut self) {
        let before = self.at;
        let least = self.digits();
        let ranges = self.eat(",");
        let most = if ranges { self.digits() } else { String::new() };
        if !self.eat("}") || (least.is_empty() && !ranges) {
            self.at = before;
            return self.literal(u32::from('{'));
        }
        let least = if least.is_empty() { "0" } else { &least };
        let counts = if ranges { format!("{{{least},{most}}}") } else { format!("{{{least}}}") };
        self.quantifier(&counts);
    }

    fn digits(&mut self) -> String {
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            digits.push(digit);
            self.at += 1;
        }
        digits
    }

    /// An escape outside of classes; `from` is the backslash's place.
    fn escape(&mut self, from: usize) -> Result<(), PatternMistake> {
        let Some(c) = self.peek() else { return self.mistake(from, "a backslash at the end") };
        match c {
            'A' => self.push("\\A"),
            'Z' => self.push("\\z"),
            'b' => self.push_fancy(&format!("(?:(?<={WORD_CLASS})(?!{WORD_CLASS})|(?<!{WORD_CLASS})(?={WORD_CLASS}))")),
            'B' => self.push_fancy(&format!("(?:(?<={WORD_CLASS})(?={WORD_CLASS})|(?<!{WORD_CLASS})(?!{WORD_CLASS}))")),
            '1'..='9' => return self.reference(),
            _ => {
                let mut class = CharacterClass::default();
                match self.class_escape(from, &mut class)? {
                    Some(code) => self.literal(code),
                    None => self.push(&class.written(false)),
                }
                return Ok(());
            }
        }
        self.at += 1;
        Ok(())
    }

    /// `\1` to `\99`, or a character by three octal digits.
    fn reference(&mut self) -> Result<(), PatternMistake> {
        let octal = |c: char| ('0'..='7').contains(&c);
        let three = self.pattern.get(self.at..self.at + 3).filter(|three| three.iter().all(|&c| octal(c)));
        if three.is_some() {
            let code = self.octal(3);
            self.literal(code);
            return Ok(());
        }
        let digits = self.pattern[self.at..].iter().take(2).take_while(|c| c.is_ascii_digit());
        let number: String = digits.collect();
        self.at += number.len();
        self.refers = true;
        self.push_fancy(&format!("(?:\\{number})"));
        Ok(())
    }

    fn octal(&mut self, most: usize) -> u32 {
        let mut code = 0;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
            code = code * 8 + digit;
            self.at += 1;
        }
        code
    }

    /// An escape that classes know, too: adds the characters of `\w` and its like to `class`, or gives a character's
    /// code. Its letter comes next.
    fn class_escape(&mut self, from: usize, class: &mut CharacterClass) -> Result<Option<u32>, PatternMistake> {
        let Some(c) = self.next() else { return self.mistake(from, "a backslash at the end") };
        let code = match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                class.add_category(c);
                return Ok(None);
            }
            'a' => 0x07,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            'x' => self.hexadecimal(from, 2)?,
            'u' => self.hexadecimal(from, 4)?,
            'U' => self.hexadecimal(from, 8)?,
            '0'..='7' => {
                self.at -= 1;
                self.octal(3)
            }
            c if c.is_ascii_alphanumeric() => return self.mistake(from, format!("the escape \\{c}")),
            c => u32::from(c),
        };
        match code > u32::from(char::MAX) {
            true => self.mistake(from, "a character beyond U+10FFFF"),
            false => Ok(Some(code)),
        }
    }

    fn hexadecimal(&mut self, from: usize, digits: usize) -> Result<u32, PatternMistake> {
        let mut code: u32 = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) else {
                return self.mistake(from, format!("an escape with fewer than {digits} hexadecimal digits"));
            };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// A class of characters; `from` is the place of its bracket.
    fn class(&mut self, from: usize) -> Result<(), PatternMistake> {
        let negated = self.eat("^");
        let mut class = CharacterClass::default();
        let first = self.at;
        loop {
            let begin = self.at;
            if self.peek() == Some(']') && begin > first {
                self.at += 1;
                break;
            }
            let least = self.class_member(from, &mut class)?;
            let ranges = self.peek() == Some('-') && self.pattern.get(self.at + 1).is_some_and(|&c| c != ']');
            let most = if ranges {
                self.at += 1;
                self.class_member(from, &mut class)?
            } else {
                least
            };
            match (least, most) {
                (Some(least), Some(most)) if least <= most => class.add_range(least, most),
                (None, None) if !ranges => {}
                _ => return self.mistake(begin, "a range of characters whose end is before its beginning or a class"),
            }
        }
        let written = class.written(negated);
        self.push(&written);
        Ok(())
    }

    /// A character of a class by its code; nothing if it stands for several, which are then added.
    fn class_member(&mut self, from: usize, class: &mut CharacterClass) -> Result<Option<u32>, PatternMistake> {
        let place = self.at;
        match self.next() {
            None => self.mistake(from, "a class without its end"),
            Some('\\') if self.eat("b") => Ok(Some(0x08)),
            Some('\\') => self.class_escape(place, class),
            Some(c) => Ok(Some(u32::from(c))),
        }
    }

    /// The beginning of a group; `from` is the place of its parenthesis. Flags for the whole pattern stand at its very
    /// beginning.
    fn group(&mut self, from: usize, begun: bool) -> Result<(), PatternMistake> {
        let outside = self.flags;
        if !self.eat("?") {
            self.numbered += 1;
            self.push("(");
        } else if self.eat("#") {
            while let Some(c) = self.next() {
                if c == ')' {
                    return Ok(());
                }
            }
            return self.mistake(from, "a comment without its end");
        } else if self.eat("P=") {
            let number = self.number(from)?;
            self.push_fancy(&format!("(?:\\{number})"));
            return Ok(());
        } else if self.eat("P<") {
            let name = self.name(from, '>')?;
            self.numbered += 1;
            self.names.insert(name, self.numbered);
            self.push("(");
        } else if self.eat("(") {
            let number = self.number(from)?;
            self.push_fancy(&format!("(?({number})"));
        } else if let Some(look) = ["<=", "<!", "=", "!", ">"].into_iter().find(|look| self.eat(look)) {
            self.push_fancy(&format!("(?{look}"));
        } else if self.eat(":") {
            self.push("(?:");
        } else if self.inline_flags(from)? {
            // Flags of the whole pattern are no group.
            self.begun = begun;
            return match begun || !self.groups.is_empty() {
                true => self.mistake(from, "flags of the whole pattern that do not stand at its beginning"),
                false => Ok(()),
            };
        } else {
            match (outside.ignore_case, self.flags.ignore_case) {
                (false, true) => self.push("(?i:"),
                (true, false) => self.push("(?-i:"),
                _ => self.push("(?:"),
            }
        }
        self.groups.push(OpenGroup { position: from, outside });
        Ok(())
    }

    /// The number of the group that is named or numbered here.
    fn number(&mut self, from: usize) -> Result<usize, PatternMistake> {
        let name = self.name(from, ')')?;
        self.refers = true;
        let number = name.parse().ok().or_else(|| self.names.get(&name).copied());
        number.map_or_else(|| self.mistake(from, format!("the group {name:?}, which is not known here")), Ok)
    }

    /// A group's name or number, up to `end`.
    fn name(&mut self, from: usize, end: char) -> Result<String, PatternMistake> {
        let mut name = String::new();
        while let Some(c) = self.next() {
            match c {
                c if c == end && !name.is_empty() => return Ok(name),
                c if c.is_alphanumeric() || c == '_' => name.push(c),
                _ => break,
            }
        }
        self.mistake(from, "a group with a name that is none")
    }

    /// Takes `i`, `m`, `s`, `x` and `u` on, or behind `-` off. Whether they are those of the whole pattern.
    fn inline_flags(&mut self, from: usize) -> Result<bool, PatternMistake> {
        let mut on = true;
        while let Some(c) = self.next() {
            match c {
                'i' => self.flags.ignore_case = on,
                'm' => self.flags.multi_line = on,
                's' => self.flags.dot_all = on,
                'x' => self.flags.verbose = on,
                'u' if on => {}
                '-' if on => on = false,
                ':' => return Ok(false),
                ')' if on => return Ok(true),
                _ => break,
            }
        }
        self.mistake(from, "a group of a kind or with a flag that is not known")
    }

    fn close_group(&mut self, from: usize) -> Result<(), PatternMistake> {
        let Some(open) = self.groups.pop() else { return self.mistake(from, "an end without a group") };
        self.flags = open.outside;
        self.push(")");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pattern: &str) -> Vec<String> {
        let alternatives = translate(pattern, DollarPlace::End).unwrap();
        alternatives.into_iter().map(|alternative| alternative.text).collect()
    }

    fn mistake(pattern: &str) -> (usize, String) {
        let mistake = translate(pattern, DollarPlace::End).unwrap_err();
        (mistake.position, mistake.reason)
    }

    #[test]
    fn alternatives_are_split_outside_of_groups() {
        assert_eq!(texts("^a|(?:b|c)$|"), ["^a", "(?:b|c)\\z", ""]);
        assert_eq!(texts("(a)|b\\1"), ["(a)|b(?:\\1)"]);
        assert_eq!(texts("(?P<q>a)(?P=q)(?(q)b)|(?!c)"), ["(a)(?:\\1)(?(1)b)|(?!c)"]);
        let looks = translate("a|(?<=b)c", DollarPlace::End).unwrap();
        assert_eq!(looks.iter().map(|one| (one.plain, one.position)).collect::<Vec<_>>(), [(true, 0), (false, 2)]);
    }

    #[test]
    fn characters_are_written_so_that_they_mean_themselves() {
        assert_eq!(texts("\\-\\u00e9\\x2b ~"), ["\\x{2d}é\\x{2b}\\x{20}\\x{7e}"]);
        assert_eq!(texts("a{b{}{1}{,2}{3,}+"), ["a\\x{7b}b\\x{7b}\\x{7d}{1}{0,2}{3,}+"]);
        assert_eq!(texts("\\Z\\A\\101\\0"), ["\\z\\AA\\x{0}"]);
    }

    #[test]
    fn flags_are_those_of_python() {
        assert_eq!(texts("(?iu)a.|b"), ["(?i:a[^\\x{a}])", "(?i:b)"]);
        assert_eq!(texts("(?x) a b # c|d\n |(?s-i:.)"), ["ab", "(?:(?s:.))"]);
        assert_eq!(texts("(?m)^a$"), ["(?m:^)a(?m:$)"]);
        assert_eq!(texts("(?i:a(?-i:b)(?#c))"), ["(?i:a(?-i:b))"]);
    }

    #[test]
    fn mistakes_have_their_place() {
        for (pattern, position) in [
            ("ab[c", 2),
            ("é(", 1),
            ("a)", 1),
            ("a\\", 1),
            ("a\\q", 1),
            ("a\\N{DASH}", 1),
            ("[b-a]", 1),
            ("[\\d-z]", 1),
            ("a(?i)", 1),
            ("(?a)", 0),
            ("(?L:a)", 0),
            ("\\u12", 0),
            ("\\U00110000", 0),
            ("(?P<1 >a)", 0),
            ("a(?P=n)", 1),
            ("(?#", 0),
        ] {
            assert_eq!(mistake(pattern).0, position, "{pattern}");
        }
    }
}
