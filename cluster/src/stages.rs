//! The stages of a command: one line of progress each, or a plain line every 30 s where nothing is drawn. A file may
//! record them.

use crate::print;
use hopeval_cluster::progress::{Progress, ProgressStage};
use hopeval_cluster::progress_log::{ProgressLine, ProgressLog};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The stages of a command, one after the other.
pub(crate) struct CommandStages {
    progress: Progress,
    current: Arc<Mutex<Option<CurrentStage>>>,
    done: Arc<AtomicBool>,
}

/// The state of a followed stage.
pub(crate) struct StageState {
    /// The share of its work that is done, from 0 to 1.
    pub(crate) share: f64,
    /// What is done, in words.
    pub(crate) text: String,
    /// The estimate of the command's time left, if there is evidence for one.
    pub(crate) left: Option<Duration>,
    /// The counts behind the estimate, for the log.
    pub(crate) counts: Value,
}

/// A stage under way.
struct CurrentStage {
    name: String,
    stage: ProgressStage,
    follow: Option<StageFollower>,
    left: Option<Duration>,
    counts: Value,
}

/// Gives the state of a stage whose work other threads do.
type StageFollower = Box<dyn FnMut() -> StageState + Send>;

/// Interval of plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(30);

/// Pause between two looks at the stage.
const LOOK: Duration = Duration::from_millis(200);

impl CommandStages {
    pub(crate) fn new(log: Option<ProgressLog>) -> Self {
        let stages = Self::with_progress(Progress::on_stderr());
        stages.watch_stages(log);
        stages
    }

    /// Stages that nobody sees: another process of the run reports.
    pub(crate) fn silent() -> Self {
        Self::with_progress(Progress::hidden())
    }

    fn with_progress(progress: Progress) -> Self {
        Self { progress, current: Arc::default(), done: Arc::default() }
    }

    /// Looks at the current stage until the end: draws it, prints it where nothing is drawn, and logs it.
    fn watch_stages(&self, mut log: Option<ProgressLog>) {
        let (current, done) = (Arc::clone(&self.current), Arc::clone(&self.done));
        let plain = self.progress.is_hidden();
        let watch = move || {
            let mut printed = Instant::now();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(stage) = current.as_mut() else { continue };
                stage.look();
                if plain && printed.elapsed() >= PLAIN_EVERY {
                    printed = Instant::now();
                    print::note(&format!("{}: {}", stage.name, stage.stage.plain_text()));
                }
                if let Some(file) = &mut log
                    && let Err(error) = file.write_line(stage.log_line())
                {
                    print::note(&format!("warning: --progress-log: {error}"));
                    log = None;
                }
            }
        };
        // Without the thread only what it shows is lost.
        drop(std::thread::Builder::new().name("progress".to_owned()).spawn(watch));
    }

    /// Shows the progress of a stage; a new name begins a new line.
    pub(crate) fn tick(&self, name: &str, done: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.enter_stage(&mut current, name, false);
        if let Some(current) = current.as_ref() {
            current.stage.set(done);
        }
    }

    fn enter_stage(&self, current: &mut Option<CurrentStage>, name: &str, has_share: bool) {
        if current.as_ref().is_none_or(|now| now.name != name) {
            if let Some(mut ended) = current.take() {
                ended.look();
                ended.stage.finish();
            }
            let stage = if has_share { self.progress.shared_stage(name) } else { self.progress.stage(name, "") };
            *current =
                Some(CurrentStage { name: name.to_owned(), stage, follow: None, left: None, counts: Value::Null });
        }
    }

    /// Shows work done by other threads, until the next stage or the end. `state` is asked several times a second.
    pub(crate) fn follow(&self, name: &str, state: impl FnMut() -> StageState + Send + 'static) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.enter_stage(&mut current, name, true);
        if let Some(current) = current.as_mut() {
            current.follow = Some(Box::new(state));
        }
    }

    /// Shows the state of a stage; a new name begins a new line.
    pub(crate) fn show(&self, name: &str, state: StageState) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.enter_stage(&mut current, name, true);
        if let Some(current) = current.as_mut() {
            current.set_state(state);
        }
    }

    /// Ends the last stage, before results are printed.
    pub(crate) fn clear(&self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(current) = self.current.lock().unwrap_or_else(PoisonError::into_inner).take() {
            current.stage.finish();
        }
    }
}

impl CurrentStage {
    /// Reads the state of a followed stage, and shows it.
    fn look(&mut self) {
        let Some(follow) = &mut self.follow else { return };
        let state = follow();
        self.set_state(state);
    }

    fn set_state(&mut self, state: StageState) {
        let StageState { share, text, left, counts } = state;
        self.stage.set_share(share);
        self.stage.set_text(&text);
        (self.left, self.counts) = (left, counts);
    }

    fn log_line(&self) -> ProgressLine<'_> {
        ProgressLine { phase: &self.name, left: self.left, counts: &self.counts }
    }
}

impl Drop for CommandStages {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}
