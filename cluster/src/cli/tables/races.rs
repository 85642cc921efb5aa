//! The races of a planned job.

use hopeval_jobs::report::plan::races::{RacePlan, RequestSharing};

/// The share from which on a race is said to save nothing.
const NOTHING: f64 = 0.995;

/// A race in one paragraph: its rungs, and what it saves.
pub(crate) fn race_text(race: &RacePlan) -> String {
    let RacePlan { name, questions, candidates, .. } = race;
    let rungs: Vec<String> = race.rungs.iter().map(u64::to_string).collect();
    let known =
        if race.generates { format!("{candidates} named candidates") } else { format!("{candidates} candidates") };
    if race.rungs.is_empty() && !race.generates {
        return format!("race `{name}`: {known} over {questions} questions, too few for a rung: nothing is stopped");
    }
    let head = format!("race `{name}`: {known} over {questions} questions, in rungs of {}", rungs.join(", "));
    let more = if race.generates { "; more candidates are generated first, and are not counted here" } else { "" };
    let share = format!("{:.0} % of all outcomes, and more where candidates are spared", 100.0 * race.outcome_share);
    let told = match (&race.waits_for, &race.sharing) {
        (Some(earlier), _) => format!("{share}; its requests follow selection `{earlier}`, which is not in the store"),
        (None, None) if race.generates && *candidates < 2 => "what it saves is not known yet".to_owned(),
        (None, None) => format!("{share}; its candidates ask no model"),
        (None, Some(sharing)) => sharing_text(sharing, &share),
    };
    format!("{head}: {told}{more}")
}

fn sharing_text(sharing: &RequestSharing, share: &str) -> String {
    let RequestSharing { questions, alone, together, guessed, request_share } = sharing;
    let about = if *guessed { "about " } else { "" };
    let counted = format!(
        "over {questions} of the questions they have {about}{alone} requests to models one by one, \
         and {about}{together} together"
    );
    if *request_share >= NOTHING {
        return format!("it saves nothing, since its candidates share their requests to models: {counted}");
    }
    format!("{share}, with {about}{:.0} % of all requests to models: {counted}", 100.0 * request_share)
}
