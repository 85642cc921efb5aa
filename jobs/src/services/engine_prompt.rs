//! Prompts of the protocol as the engine assembles them: parts with the texts of their passages and fragments.

use hopeval_lm::prompt::{self as engine, PromptError};
use hopeval_methods::{Content, Failure, FailureKind, LengthLimit, OverflowRule, Prompt, PromptReport};

/// The prompt with all texts looked up by `text_of`.
///
/// # Errors
/// Those of `text_of`.
pub(super) fn engine_prompt<T>(
    prompt: &Prompt,
    text_of: impl Fn(&Content) -> Result<T, Failure>,
) -> Result<engine::Prompt<T>, Failure> {
    let parts = prompt.parts.iter().map(|part| {
        Ok(engine::PromptPart { text: text_of(&part.content)?, truncate: part.truncate.map(engine_limit) })
    });
    let parts = parts.collect::<Result<Vec<_>, Failure>>()?;
    let overflow = prompt.overflow.iter().map(|rule| match *rule {
        OverflowRule::Drop { part } => engine::OverflowRule::drop_part(part as usize),
        OverflowRule::DropParts { first, count } => {
            engine::OverflowRule::Drop { first: first as usize, count: count as usize }
        }
        OverflowRule::Cut { part, to } => engine::OverflowRule::Cut { part: part as usize, to: engine_limit(to) },
    });
    Ok(engine::Prompt {
        parts,
        budget: prompt.budget.map(|budget| budget as usize),
        overflow: overflow.collect(),
        count_parts: prompt.count_parts,
        packing: prompt.packing.map(|packing| engine::ShotPacking {
            shots: packing.shots as usize,
            context_tokens: packing.context_tokens as usize,
            answer_tokens: packing.answer_tokens as usize,
            spares_longest: packing.spares_longest,
        }),
    })
}

fn engine_limit(limit: LengthLimit) -> engine::LengthLimit {
    match limit {
        LengthLimit::Tokens(tokens) => engine::LengthLimit::Tokens(tokens as usize),
        LengthLimit::Words(words) => engine::LengthLimit::Words(words as usize),
        LengthLimit::SpacedWords(words) => engine::LengthLimit::SpacedWords(words as usize),
    }
}

/// The engine's report in the protocol's type.
pub(super) fn prompt_report(report: &engine::PromptReport) -> PromptReport {
    PromptReport {
        tokens: report.tokens as u32,
        dropped: report.dropped.iter().map(|&part| part as u32).collect(),
        cut: report.cut.iter().map(|&(part, lost)| (part as u32, lost as u32)).collect(),
        part_tokens: report.part_tokens.iter().map(|&tokens| tokens as u32).collect(),
    }
}

/// The failure of a request whose prompt cannot be put together.
pub(super) fn prompt_failure(error: &PromptError) -> Failure {
    let kind = match error {
        PromptError::TooLong { .. } => FailureKind::ContextOverflow,
        PromptError::NoPart { .. } | PromptError::NoShots { .. } | PromptError::Tokenise(_) => FailureKind::Refused,
    };
    Failure { kind, message: error.to_string() }
}
