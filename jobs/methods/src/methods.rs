//! The methods, one per file. Each file opens with its transition table and cites its source.

pub(crate) mod efficientrag;
pub(crate) mod efficientrag_data;
pub(crate) mod given;
pub(crate) mod iterative_title;
pub(crate) mod one_step;
pub(crate) mod oracle;
pub(crate) mod promptrank;
pub(crate) mod random;
pub(crate) mod tfidf_bm25;
