//! Reads a SentencePiece model: a protocol buffer, `sentencepiece_model.proto` of google/sentencepiece.
//!
//! Reads only the fields needed for a tokenizer. The wire format is simple enough to do without generated code.

/// Maximum length of a piece in bytes. SentencePiece makes pieces of at most 16 characters unless told otherwise, and
/// deriving merges takes the square of it.
const MOST_PIECE: usize = 1024;

/// A SentencePiece model.
#[derive(Debug, Default)]
pub(super) struct SentencePieceModel {
    /// In the order of their ids.
    pub(super) pieces: Vec<ModelPiece>,
    pub(super) algorithm: ModelAlgorithm,
    pub(super) byte_fallback: bool,
    pub(super) unk_id: usize,
    /// The normaliser's table; empty if there is none.
    pub(super) charsmap: Vec<u8>,
}

/// One piece.
#[derive(Debug, Default)]
pub(super) struct ModelPiece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: PieceKind,
}

/// The role of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// A part of text; also the unknown piece, bytes and unused pieces.
    #[default]
    Other,
    /// `<s>` and its like.
    Control,
    /// Found in a text before all other pieces.
    UserDefined,
}

/// How a text is cut into pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ModelAlgorithm {
    #[default]
    Unigram,
    Bpe,
    /// By words or characters; not supported.
    Other,
}

impl SentencePieceModel {
    /// Parses a model file.
    ///
    /// # Errors
    /// A description of the defect.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut model = Self::default();
        let (mut trained, mut normalised) = (false, false);
        for field in MessageFields(bytes) {
            match field? {
                (1, WireValue::Bytes(piece)) => model.pieces.push(ModelPiece::parse(piece)?),
                (2, WireValue::Bytes(trainer)) => {
                    model.read_trainer(trainer)?;
                    trained = true;
                }
                (3, WireValue::Bytes(normalizer)) => {
                    model.read_normalizer(normalizer)?;
                    normalised = true;
                }
                _ => {}
            }
        }
        // The specifications come after the pieces: a file cut between two pieces lacks them.
        if model.pieces.is_empty() || !trained || !normalised {
            return Err("no whole SentencePiece model: it lacks pieces or specifications".to_owned());
        }
        if model.unk_id >= model.pieces.len() {
            return Err(format!("the unknown piece is {} of {}", model.unk_id, model.pieces.len()));
        }
        Ok(model)
    }

    fn read_trainer(&mut self, bytes: &[u8]) -> Result<(), String> {
        for field in MessageFields(bytes) {
            match field? {
                (3, WireValue::Number(1)) => self.algorithm = ModelAlgorithm::Unigram,
                (3, WireValue::Number(2)) => self.algorithm = ModelAlgorithm::Bpe,
                (3, WireValue::Number(_)) => self.algorithm = ModelAlgorithm::Other,
                (35, WireValue::Number(flag)) => self.byte_fallback = flag != 0,
                (40, WireValue::Number(id)) => self.unk_id = usize::try_from(id).unwrap_or(usize::MAX),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_normalizer(&mut self, bytes: &[u8]) -> Result<(), String> {
        for field in MessageFields(bytes) {
            if let (2, WireValue::Bytes(charsmap)) = field? {
                self.charsmap = charsmap.to_vec();
            }
        }
        Ok(())
    }
}

impl ModelPiece {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut piece = Self::default();
        for field in MessageFields(bytes) {
            match field? {
                (1, WireValue::Bytes(text)) if text.len() > MOST_PIECE => {
                    return Err(format!("a piece of {} bytes; at most {MOST_PIECE} are read", text.len()));
                }
                (1, WireValue::Bytes(text)) => {
                    let text = std::str::from_utf8(text).map_err(|_| "a piece that is not UTF-8".to_owned())?;
                    piece.text = text.to_owned();
                }
                (2, WireValue::Fixed(bits)) => piece.score = f32::from_bits(bits),
                (3, WireValue::Number(3)) => piece.kind = PieceKind::Control,
                (3, WireValue::Number(4)) => piece.kind = PieceKind::UserDefined,
                _ => {}
            }
        }
        Ok(piece)
    }
}

/// A field's value on the wire.
enum WireValue<'a> {
    Number(u64),
    Fixed(u32),
    /// 64 bits, unused by the fields read here.
    Wide,
    Bytes(&'a [u8]),
}

/// The fields of a message, with their numbers.
struct MessageFields<'a>(&'a [u8]);

impl<'a> Iterator for MessageFields<'a> {
    type Item = Result<(u64, WireValue<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| "no whole SentencePiece model: it ends or breaks off within a field".to_owned()))
    }
}

impl<'a> MessageFields<'a> {
    fn next_field(&mut self) -> Option<(u64, WireValue<'a>)> {
        let tag = self.next_varint()?;
        let value = match tag & 7 {
            0 => WireValue::Number(self.next_varint()?),
            1 => self.take_bytes(8).map(|_| WireValue::Wide)?,
            2 => {
                let length = usize::try_from(self.next_varint()?).ok()?;
                WireValue::Bytes(self.take_bytes(length)?)
            }
            5 => WireValue::Fixed(u32::from_le_bytes(self.take_bytes(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn take_bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Seven bits a byte, lowest first, while the highest bit is set.
    fn next_varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take_bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}
