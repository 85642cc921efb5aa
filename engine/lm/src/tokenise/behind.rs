//! Texts behind a cut, for tokenizers that put a space before every text (Llama 2, Mistral).
//!
//! ```text
//!   whole:    who made it?  ->  _who_made_it?         _: the space's mark
//!   pieces:   who| made it? ->  _who  +  _made_it?    and not __made_it?
//! ```
//!
//! Such a tokenizer would put one before each piece, too. So the pieces behind the first one have a copy of it that
//! puts none. In a whole text a space comes behind every added token as well: a text with one of these is not cut.

use super::TokenSpan;
use super::cache::TextCache;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use tokenizers::normalizers::{NormalizerWrapper, Sequence};
use tokenizers::{Result, Tokenizer as Inner};

/// Bytes of texts and ids in its cache.
const CACHE_BYTES: usize = 64 << 20;

/// A tokenizer without the space that it puts before every text.
#[derive(Debug)]
pub(crate) struct TokenizerBehindCuts {
    inner: Inner,
    cache: TextCache,
    /// The ids of added tokens.
    added: FxHashSet<u32>,
}

impl TokenizerBehindCuts {
    /// `None` for a tokenizer that puts nothing before a text.
    pub(super) fn find(tokenizer: &Inner) -> Result<Option<Self>> {
        let Some(normalizer) = tokenizer.get_normalizer().and_then(without_prepend) else { return Ok(None) };
        let mut inner = tokenizer.clone();
        inner.with_normalizer(Some(normalizer))?;
        let added = tokenizer.get_added_tokens_decoder().into_keys().collect();
        Ok(Some(Self { inner, cache: TextCache::new(CACHE_BYTES), added }))
    }

    /// The ids of a text, without special tokens around it. Computed once per text.
    pub(super) fn ids(&self, text: &str) -> Result<Arc<[u32]>> {
        if let Some(ids) = self.cache.get(text, false) {
            return Ok(ids);
        }
        let ids: Arc<[u32]> = self.inner.encode_fast(text, false)?.get_ids().into();
        self.cache.put(text, false, &ids);
        Ok(ids)
    }

    /// A text's tokens and the bytes of each.
    pub(super) fn spans(&self, text: &str) -> Result<Vec<TokenSpan>> {
        let encoding = self.inner.encode(text, false)?;
        let spans = encoding.get_offsets().iter().map(|&span| Some(span));
        Ok(encoding.get_ids().iter().copied().zip(spans).collect())
    }

    /// Whether one of these is an added token.
    pub(super) fn has_added(&self, ids: &[u32]) -> bool {
        ids.iter().any(|id| self.added.contains(id))
    }
}

/// A normalizer without what it puts before a text; `None` if it puts nothing there.
fn without_prepend(normalizer: &NormalizerWrapper) -> Option<NormalizerWrapper> {
    match normalizer {
        NormalizerWrapper::Prepend(_) => Some(NormalizerWrapper::Sequence(Sequence::new(Vec::new()))),
        NormalizerWrapper::Sequence(parts) => {
            let parts: &[NormalizerWrapper] = parts.as_ref();
            let kept: Vec<_> =
                parts.iter().filter(|part| !matches!(part, NormalizerWrapper::Prepend(_))).cloned().collect();
            (kept.len() < parts.len()).then(|| NormalizerWrapper::Sequence(Sequence::new(kept)))
        }
        _ => None,
    }
}
