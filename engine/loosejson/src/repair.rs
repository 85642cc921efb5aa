//! The repairs, each with its name.

use std::collections::BTreeMap;

/// Declares the repairs with their names.
macro_rules! repairs {
    ($($(#[$doc:meta])* $Repair:ident = $name:literal,)*) => {
        /// A departure of a text from JSON, and how it is read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Repair {
            $($(#[$doc])* $Repair,)*
        }

        impl Repair {
            /// Every repair, in the order of reports.
            pub const ALL: &'static [Repair] = &[$(Repair::$Repair,)*];

            /// The name in outcomes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Repair::$Repair => $name,)*
                }
            }
        }
    };
}

repairs! {
    /// A fence of Markdown around the value; it is left out.
    Fence = "fence",
    /// Words before or after the value; they are left out.
    SurroundingText = "surrounding_text",
    /// Further values in the text; one is chosen.
    SeveralValues = "several_values",
    /// A byte order mark or another character without width between tokens; it is left out.
    ByteOrderMark = "byte_order_mark",
    /// White space between tokens that JSON does not know.
    OddSpace = "odd_space",
    /// The whole text is escaped as if it stood in a string; one level is taken away.
    EscapedText = "escaped_text",
    /// A string in single quotes.
    SingleQuotes = "single_quotes",
    /// A string in typographic quotes or backticks.
    SmartQuotes = "smart_quotes",
    /// A string in three quotes.
    TripleQuotes = "triple_quotes",
    /// A letter of Python before a string, such as `r`; it is left out.
    StringPrefix = "string_prefix",
    /// A quote within a string without a backslash.
    UnescapedQuote = "unescaped_quote",
    /// A string without its closing quote, seen by the key that follows it.
    MissingQuote = "missing_quote",
    /// An escape that JSON does not know. `\'`, `\xHH` and an escaped end of line are read as in Python; of others the
    /// backslash is kept.
    BadEscape = "bad_escape",
    /// Half of a surrogate pair; read as U+FFFD.
    LoneSurrogate = "lone_surrogate",
    /// A control character within a string, such as an end of line.
    ControlCharacter = "control_character",
    /// A key without quotes.
    BareKey = "bare_key",
    /// A text without quotes in place of a value; read as a string.
    BareText = "bare_text",
    /// A literal of another language, such as `True`, `None` or `undefined`.
    Literal = "literal",
    /// `NaN` or an infinity; read as null.
    NotFinite = "not_finite",
    /// A number in another spelling, such as `+1`, `.5`, `007` or `1_000`.
    OddNumber = "odd_number",
    /// A number that has no 64 bits; it is rounded.
    RoundedNumber = "rounded_number",
    /// A tuple; read as an array.
    Tuple = "tuple",
    /// A set; read as an array.
    Set = "set",
    /// A comma before a closing bracket, or one too many.
    TrailingComma = "trailing_comma",
    /// No comma between two members or items.
    MissingComma = "missing_comma",
    /// Another sign than a colon between a key and its value, or none.
    OddSeparator = "odd_separator",
    /// Punctuation of full width.
    FullWidth = "full_width",
    /// A comment; it is left out.
    Comment = "comment",
    /// `...` in place of items; it is left out.
    Ellipsis = "ellipsis",
    /// Words where a comma or a bracket must stand; they are left out.
    SkippedText = "skipped_text",
    /// A key twice in one object; the last value is kept.
    RepeatedKey = "repeated_key",
    /// A key without a value; it is dropped.
    DroppedKey = "dropped_key",
    /// No bracket opens the members.
    MissingOpen = "missing_open",
    /// A closing bracket of the wrong shape.
    WrongClose = "wrong_close",
    /// An inner container that a bracket of an outer one closes.
    MissingClose = "missing_close",
    /// A container that is open at the end of the text.
    Unclosed = "unclosed",
    /// A string that is open at the end of the text; its beginning is kept.
    CutString = "cut_string",
    /// A number or a bare text at the end of the text, which may have been longer; kept as it is.
    CutScalar = "cut_scalar",
    /// A piece of a literal, of a number or of an escape at the end of the text; it is dropped.
    DroppedPiece = "dropped_piece",
}

/// How often each repair was needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairCounts(BTreeMap<Repair, u32>);

impl RepairCounts {
    /// Counts a repair.
    pub fn add(&mut self, repair: Repair) {
        self.add_times(repair, 1);
    }

    /// Counts a repair so many times.
    pub fn add_times(&mut self, repair: Repair, times: u32) {
        if times > 0 {
            *self.0.entry(repair).or_insert(0) += times;
        }
    }

    /// Adds those of another value.
    pub fn add_all(&mut self, others: &RepairCounts) {
        for (repair, count) in others.iter() {
            self.add_times(repair, count);
        }
    }

    /// How often this one was needed.
    pub fn count(&self, repair: Repair) -> u32 {
        self.0.get(&repair).copied().unwrap_or(0)
    }

    /// All together.
    pub fn total(&self) -> u32 {
        self.0.values().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that were needed, in the order of [`Repair::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Repair, u32)> + '_ {
        self.0.iter().map(|(repair, count)| (*repair, *count))
    }
}
