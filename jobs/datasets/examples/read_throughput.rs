//! Reads datasets or corpora and says how fast.
//!
//! Why: a million questions, or twenty million passages, are read before anything else happens.
//! What: questions (or passages) per second and uncompressed megabytes per second, of one thread, for each file named.
//! Knobs: `--passages` reads the files as a corpus; name a file several times to see how stable the figure is.

use std::io::Write;
use std::time::Instant;

use hopeval_datasets::{DatasetSpec, PassageSpec, Passages, Questions, RowPolicy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    let mut as_passages = false;
    for argument in std::env::args().skip(1) {
        if argument == "--passages" {
            as_passages = true;
            continue;
        }
        let start = Instant::now();
        let (count, bytes) = if as_passages {
            let mut passages = Passages::open(&PassageSpec::file(&argument), RowPolicy::Strict)?;
            let count = passages.by_ref().try_fold(0_u64, |count, passage| passage.map(|_| count + 1))?;
            (count, passages.bytes())
        } else {
            let mut questions = Questions::open(&DatasetSpec::file(&argument), RowPolicy::Strict)?;
            let count = questions.by_ref().try_fold(0_u64, |count, question| question.map(|_| count + 1))?;
            (count, questions.bytes())
        };
        let seconds = start.elapsed().as_secs_f64();
        let (rate, megabytes) = (count as f64 / seconds, bytes as f64 / seconds / 1e6);
        writeln!(out, "{argument}: {count} in {seconds:.3} s, {rate:.0}/s, {megabytes:.0} MB/s")?;
    }
    Ok(())
}
