//! Finds the label of entailment among those of a checkpoint's sequence classifier.

use super::settings::LmSettings;
use hopeval_lm::session::Session;

/// The position of the label of entailment, if the checkpoint has it among several labels.
pub(super) fn entailment_position(session: &Session, settings: &LmSettings) -> Option<usize> {
    let labels = &session.sequence_labels;
    let wanted = |label: &String| label.eq_ignore_ascii_case(&settings.entail_label);
    labels.iter().position(wanted).filter(|_| labels.len() > 1)
}
