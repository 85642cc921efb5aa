//! The races of a run's sweeps: their rungs, and the points that they stopped.

use super::UNKNOWN;
use super::fitted::FigureTable;
use hopeval_jobs::job::race_record::{RungRecord, StoppedCandidate, StoppedPoint};
use hopeval_jobs::run::open::OpenRun;

/// The decided races of a run, in the order of their methods; nothing for a run without a race.
pub(crate) fn raced_tables(run: &OpenRun) -> Vec<String> {
    let raced = run.resolved.job.method.iter();
    let raced = raced.filter_map(|(name, method)| Some((name, method.race.as_ref()?, method.raced.as_ref()?)));
    raced
        .map(|(name, race, raced)| {
            let mut text = format!(
                "\nrace of {name} by {}: {} points stopped; their figures are of a part of the questions, and stand in \
                 no other table",
                race.measure,
                raced.stopped.len()
            );
            for (number, rung) in (1..).zip(&raced.race.rungs) {
                text.push_str(&format!("\n{}", rung_text(number, rung)));
            }
            let share = |share: f64| format!("{share:.4}");
            let rows = raced.stopped.iter().map(|StoppedPoint { configuration, stopped }| {
                let StoppedCandidate { questions, mean, cut, difference, difference_stderr, .. } = stopped;
                let mean = mean.map_or_else(|| UNKNOWN.to_owned(), share);
                let difference = format!("{difference:.4} ± {difference_stderr:.4}");
                vec![configuration.clone(), questions.to_string(), mean, share(*cut), difference]
            });
            let header = ["stopped", "after questions", "mean", "cut", "paired difference"];
            let table = FigureTable { names: 1, ..FigureTable::new(&header, rows) }.to_text();
            format!("{text}\n\n{table}")
        })
        .collect()
}

/// A rung of a race in one line.
pub(crate) fn rung_text(number: usize, rung: &RungRecord) -> String {
    let cut = rung.cut.map_or_else(|| UNKNOWN.to_owned(), |cut| format!("{cut:.4}"));
    let spared = match rung.spared {
        0 => String::new(),
        spared => format!(", and {spared} close behind it go on, too"),
    };
    format!(
        "rung {number}: {} candidates over {} questions, {} stopped; the cut is rank {} with {cut}{spared}",
        rung.candidates, rung.questions, rung.stopped, rung.ranked
    )
}

/// The end of a candidate in a race: its figure, the one that went on last, and the paired difference of the two.
pub(super) fn stopped_text(stopped: &StoppedCandidate) -> String {
    let StoppedCandidate { questions, mean, cut, difference, difference_stderr, .. } = stopped;
    let mean = mean.map_or_else(|| UNKNOWN.to_owned(), |mean| format!("{mean:.4}"));
    if *difference == 0.0 && *difference_stderr == 0.0 {
        return format!("stopped after {questions} questions: mean {mean}, on each of them that of the cut");
    }
    format!(
        "stopped after {questions} questions: mean {mean}, cut {cut:.4}, \
         paired difference {difference:.4} ± {difference_stderr:.4}"
    )
}
