//! Progress on standard error, one line for each stage: with its rate, or with its share and the time left.
//!
//! Lines are drawn for people only: if standard error is a dumb terminal or not a terminal, nothing is drawn, and a
//! stage tells its state as plain text. `NO_COLOR` is honoured. Any thread may advance a stage.

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The appearance of progress lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressLook {
    Hidden,
    Plain,
    Coloured,
}

/// The progress lines of a command's stages; cheap to clone.
#[derive(Debug, Clone)]
pub struct Progress {
    lines: MultiProgress,
    look: ProgressLook,
}

/// One stage. If it is dropped without [`ProgressStage::finish`], its line stays as it is.
pub struct ProgressStage {
    bar: ProgressBar,
    look: ProgressLook,
}

impl fmt::Debug for ProgressStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("at", &self.bar.position()).field("of", &self.bar.length()).finish()
    }
}

impl Progress {
    /// Progress suited to this process's standard error and environment.
    pub fn on_stderr() -> Self {
        let term = std::env::var("TERM").ok();
        // https://no-color.org: set and not empty.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let look = choose_look(std::io::stderr().is_terminal(), term.as_deref(), no_color);
        match look {
            ProgressLook::Hidden => Self::hidden(),
            _ => Self { lines: MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8)), look },
        }
    }

    /// Progress without any drawing.
    pub fn hidden() -> Self {
        Self { lines: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()), look: ProgressLook::Hidden }
    }

    /// Whether nothing is drawn.
    pub fn is_hidden(&self) -> bool {
        self.look == ProgressLook::Hidden
    }

    /// Begins a stage of unknown length. `unit` is a plural: "questions".
    pub fn stage(&self, name: &str, unit: &str) -> ProgressStage {
        self.add_stage(ProgressBar::no_length(), LineTemplate::Open, name, unit)
    }

    /// Begins a stage with a bar, whose share and text the caller sets.
    pub fn shared_stage(&self, name: &str) -> ProgressStage {
        self.add_stage(ProgressBar::new(STEPS), LineTemplate::Share, name, "")
    }

    fn add_stage(&self, bar: ProgressBar, line: LineTemplate, name: &str, text: &str) -> ProgressStage {
        let bar = bar.with_style(style(self.look, line)).with_prefix(name.to_owned()).with_message(text.to_owned());
        let bar = self.lines.add(bar);
        if self.look != ProgressLook::Hidden {
            // The elapsed time must advance during a long unit.
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        ProgressStage { bar, look: self.look }
    }

    /// Runs `print` while lines are not drawn, so that both stay whole on a terminal.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.lines.suspend(print)
    }
}

impl ProgressStage {
    /// Sets the number of finished units.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Adds finished units.
    pub fn inc(&self, more: u64) {
        self.bar.inc(more);
    }

    /// Sets the share that is done of a stage with a bar, from 0 to 1.
    pub fn set_share(&self, share: f64) {
        self.bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    /// Sets the text behind the count or the bar: a unit, or a state.
    pub fn set_text(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// The state as plain text, for a line in a log.
    pub fn plain_text(&self) -> String {
        let count = self.bar.length().is_none().then(|| self.bar.position());
        plain_text(count, &self.bar.message(), self.bar.elapsed())
    }

    /// Ends the stage. Its line stays and shows the elapsed time; the line of a stage shorter than a second goes away.
    pub fn finish(self) {
        if self.bar.elapsed() < SHOWN_FROM {
            return self.bar.finish_and_clear();
        }
        let done = match (self.bar.length(), self.bar.position()) {
            (None, 1..) => LineTemplate::Done,
            _ => LineTemplate::Uncounted,
        };
        self.bar.set_style(style(self.look, done));
        self.bar.abandon();
    }
}

impl Drop for ProgressStage {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.abandon();
        }
    }
}

/// The shortest time of a stage with a line at its end.
const SHOWN_FROM: Duration = Duration::from_secs(1);

/// The length of a stage's bar.
const STEPS: u64 = 1000;

/// The state of a stage as plain text; a stage with a bar has no count.
fn plain_text(count: Option<u64>, text: &str, elapsed: Duration) -> String {
    let words = [count.map(|count| count.to_string()).unwrap_or_default(), text.to_owned()];
    let words = words.iter().map(|words| words.trim()).filter(|words| !words.is_empty()).collect::<Vec<_>>();
    format!("{} after {} s", words.join(" "), elapsed.as_secs()).trim_start().to_owned()
}

fn choose_look(terminal: bool, term: Option<&str>, no_color: bool) -> ProgressLook {
    match (terminal, term, no_color) {
        (false, ..) | (_, Some("dumb"), _) => ProgressLook::Hidden,
        (_, _, true) => ProgressLook::Plain,
        _ => ProgressLook::Coloured,
    }
}

/// The template of a line.
#[derive(Clone, Copy)]
enum LineTemplate {
    /// A bar and a text.
    Share,
    Open,
    Done,
    /// Done, and nothing was counted.
    Uncounted,
}

fn style(look: ProgressLook, line: LineTemplate) -> ProgressStyle {
    let template = match (line, look) {
        (LineTemplate::Share, ProgressLook::Coloured) => "{prefix:14.bold} {bar:24.cyan/dim} {msg}",
        (LineTemplate::Share, _) => "{prefix:14} {bar:24} {msg}",
        (LineTemplate::Open, ProgressLook::Coloured) => "{prefix:14.bold} {human_pos} {msg}, {per_sec}, {elapsed}",
        (LineTemplate::Open, _) => "{prefix:14} {human_pos} {msg}, {per_sec}, {elapsed}",
        (LineTemplate::Done, ProgressLook::Coloured) => "{prefix:14.bold} {human_pos} {msg} in {elapsed}",
        (LineTemplate::Done, _) => "{prefix:14} {human_pos} {msg} in {elapsed}",
        (LineTemplate::Uncounted, ProgressLook::Coloured) => "{prefix:14.bold} in {elapsed}",
        (LineTemplate::Uncounted, _) => "{prefix:14} in {elapsed}",
    };
    // The templates are tested; a wrong one would show indicatif's own line.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("per_sec", |state: &indicatif::ProgressState, out: &mut dyn fmt::Write| {
            // Formatting into the line cannot fail.
            let _ = write!(out, "{}/s", rate(state.per_sec()));
        })
        .progress_chars("=> ")
}

/// A rate with about three figures.
fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1000.0 => format!("{:.1}k", r / 1000.0),
        r if r >= 10.0 => format!("{r:.0}"),
        r => format!("{r:.2}"),
    }
}

#[cfg(test)]
mod tests;
