//! Refuses nonsensical searches: `[tune]` and its `[[tune.select]]`.

use crate::bad_value::{BadValue, ensure};
use crate::job::file::Job;
use crate::job::infill::{BLANK, InfillSettings, PLACE, Template};
use crate::job::race::RaceSettings;
use crate::job::sample::SampleSettings;
use crate::job::scoring::profile_of;
use crate::job::tune::{SearchSettings, TuneSettings};
use hopeval_datasets::Format;
use hopeval_measures::MeasureSet;
use hopeval_methods::RequestKind;
use serde_json::Value;
use std::collections::BTreeSet;

/// The most candidates of a grid: the names of their configurations number them with four digits.
const MOST_CANDIDATES: usize = 10_000;

/// Checks the searches of a job, if it has any.
///
/// # Errors
/// The first nonsensical value.
pub(super) fn check_searches(job: &Job) -> Result<(), BadValue> {
    let Some(tune) = &job.tune else { return Ok(()) };
    check_sample(job, tune)?;
    let mut names = BTreeSet::new();
    for (n, search) in tune.select.iter().enumerate() {
        let checked = check_search(search, tune, job).and_then(|()| {
            ensure(names.insert(search.name.as_str()), || {
                BadValue::new("name", &search.name, "names that each occur once")
            })
        });
        checked.map_err(|bad| bad.within_table(&format!("tune.select[{n}]")))?;
    }
    Ok(())
}

/// Checks the sample of a job's searches.
fn check_sample(job: &Job, tune: &TuneSettings) -> Result<(), BadValue> {
    ensure(tune.sample > 0, || BadValue::new("tune.sample", "0", "at least 1"))?;
    match (&tune.world, tune.questions.paths()) {
        (Some(_), [_, ..]) => {
            return Err(BadValue::new("tune", "both `questions` and `world`", "one of `questions` and `world`"));
        }
        (None, [_, ..]) if job.corpus.source.paths().is_empty() => {
            let allowed = "a world, since the job's passages are a world's, or files with a `corpus.source`";
            return Err(BadValue::new("tune.questions", "files without passages", allowed));
        }
        _ => {}
    }
    if let Some(world) = &tune.world {
        world.check_values().map_err(|bad| bad.within_table("tune.world"))?;
    }
    let Some(draw) = job.dataset.draw.filter(|_| tune.takes_own()) else { return Ok(()) };
    let is_rest = draw == SampleSettings { rest: true, ..tune.sample_settings() };
    let is_behind = draw.seed == tune.seed && draw.after >= tune.sample;
    ensure(is_rest || is_behind, || {
        let SampleSettings { questions, seed, after, .. } = draw;
        let allowed = "nothing, since all questions but the sample of [tune] are evaluated; or a draw by the seed of \
                       [tune], `after` its sample or more; or questions of [tune] to draw from";
        BadValue::new("dataset.draw", format!("{questions} questions by seed {seed} after {after}"), allowed)
    })
}

fn check_search(select: &SearchSettings, tune: &TuneSettings, job: &Job) -> Result<(), BadValue> {
    ensure(is_name(&select.name), || {
        let allowed = "letters, digits, `-`, `_` and `.`, beginning with a letter or digit";
        BadValue::new("name", &select.name, allowed)
    })?;
    let Some(method) = job.method.get(&select.method) else {
        return Err(BadValue::new("method", &select.method, "the name of a [method.NAME] of this job"));
    };
    ensure(method.sweep.is_empty() && method.replicates.is_empty(), || {
        BadValue::new("method", &select.method, "a method without [sweep] and [replicates]")
    })?;
    if select.grid.is_empty() {
        check_parameter("parameter", &select.parameter)?;
        check_candidates(select)?;
    } else {
        check_grid(select)?;
        check_whole_choice(select, job)?;
    }
    check_others(select, tune)?;
    if let Some(generate) = &select.generate {
        check_infill(generate, job).map_err(|bad| bad.within_table("generate"))?;
    }
    if let Some(race) = &select.race {
        check_race(race, select, tune).map_err(|bad| bad.within_table("race"))?;
        check_best_few(race, select, job)?;
    }
    check_measure(select, tune, job)
}

fn check_candidates(select: &SearchSettings) -> Result<(), BadValue> {
    let candidates = &select.candidates;
    ensure(!candidates.is_empty() || select.generate.is_some(), || {
        BadValue::new("candidates", "[]", "at least one value, or a table `generate`")
    })?;
    check_distinct("candidates", candidates)
}

fn check_distinct(name: &str, values: &[Value]) -> Result<(), BadValue> {
    match values.iter().enumerate().find(|(n, value)| values[..*n].contains(value)) {
        Some((_, twice)) => Err(BadValue::new(name, format!("{twice} twice"), "values that each occur once")),
        None => Ok(()),
    }
}

/// Checks that a search can choose values of a parameter.
fn check_parameter(key: &str, parameter: &str) -> Result<(), BadValue> {
    const OTHERS: [&str; 9] =
        ["", "kind", "sweep", "sweep_draw", "sweep_when", "race", "raced", "replicates", "control"];
    let found = if parameter.is_empty() { "nothing" } else { parameter };
    ensure(!OTHERS.contains(&parameter), || BadValue::new(key, found, "a parameter of the method, or a table `grid`"))
}

/// Checks a choice of several parameters together.
fn check_grid(select: &SearchSettings) -> Result<(), BadValue> {
    let alone = |key: &str, is_set: bool| {
        ensure(!is_set, || {
            BadValue::new(key, "set beside `grid`", "either `grid` or a `parameter` with its candidates")
        })
    };
    alone("parameter", !select.parameter.is_empty())?;
    alone("candidates", !select.candidates.is_empty())?;
    alone("generate", select.generate.is_some())?;
    ensure(select.grid.len() > 1, || {
        BadValue::new("grid", "one parameter", "two parameters or more; one is `parameter` with `candidates`")
    })?;
    for (parameter, values) in &select.grid {
        check_parameter("grid", parameter)?;
        let key = format!("grid.{parameter}");
        ensure(!values.is_empty(), || BadValue::new(&key, "[]", "at least one value"))?;
        check_distinct(&key, values)?;
    }
    let points = select.grid.values().try_fold(1_usize, |points, values| points.checked_mul(values.len()));
    ensure(points.is_some_and(|points| points <= MOST_CANDIDATES), || {
        let found = points.map_or_else(|| "more than 2^64 candidates".to_owned(), |n| format!("{n} candidates"));
        BadValue::new("grid", found, "at most 10000 candidates")
    })
}

fn check_race(race: &RaceSettings, select: &SearchSettings, tune: &TuneSettings) -> Result<(), BadValue> {
    let first = race.first_questions(tune.sample);
    // A difference has a standard error from two questions on.
    ensure((2..tune.sample).contains(&first), || {
        BadValue::new("first", first.to_string(), "at least 2 and fewer than `tune.sample`; 16 or more if left out")
    })?;
    let known = if select.generate.is_some() { u64::MAX } else { select.named_candidates().len() as u64 };
    check_rule(race, known)
}

/// Checks the rule of a race of so many candidates.
pub(super) fn check_rule(race: &RaceSettings, candidates: u64) -> Result<(), BadValue> {
    ensure(race.factor >= 2, || BadValue::new("factor", race.factor.to_string(), "at least 2"))?;
    let allowed = "at least 1 and fewer than the candidates, since otherwise nobody can be stopped";
    ensure((1..candidates).contains(&race.least), || BadValue::new("least", race.least.to_string(), allowed))?;
    ensure(race.margin.is_finite() && race.margin >= 0.0, || {
        BadValue::new("margin", race.margin.to_string(), "a number of standard errors from 0 on")
    })
}

/// Checks that a race measures as many candidates over the whole sample as the job's methods take.
fn check_best_few(race: &RaceSettings, select: &SearchSettings, job: &Job) -> Result<(), BadValue> {
    let taken = |value: &Value| {
        let names = value.get("selection")?.as_str()? == select.name;
        value.get("best").and_then(Value::as_u64).filter(|&best| names && best > race.least)
    };
    let mut parameters = job.method.values().flat_map(|method| method.parameters.values());
    match parameters.find_map(taken) {
        None => Ok(()),
        Some(best) => {
            let found = format!("{}, and a method takes the best {best}", race.least);
            Err(BadValue::new("race.least", found, "at least the `best` of every method that names the selection"))
        }
    }
}

/// Checks that a method takes all parameters that were chosen together from the selection, or none.
fn check_whole_choice(select: &SearchSettings, job: &Job) -> Result<(), BadValue> {
    let names_it = |value: &Value| value.get("selection").and_then(Value::as_str) == Some(&select.name);
    for (name, method) in &job.method {
        let taken: BTreeSet<&str> =
            method.parameters.iter().filter(|(_, value)| names_it(value)).map(|(key, _)| key.as_str()).collect();
        let best = method.parameters.values().any(|value| names_it(value) && value.get("best").is_some());
        let is_whole = taken.is_empty() || taken.iter().copied().eq(select.grid.keys().map(String::as_str));
        ensure(is_whole && !best, || {
            let taken = taken.iter().copied().collect::<Vec<_>>().join(", ");
            let best = if best { " with `best`" } else { "" };
            let allowed = "a method takes all parameters of the grid from the selection, one value each, or none";
            BadValue::new("grid", format!("chosen together, and method `{name}` takes {taken}{best}"), allowed)
        })?;
    }
    Ok(())
}

/// Checks that no other search of the method chooses a parameter that this one chooses with others.
fn check_others(select: &SearchSettings, tune: &TuneSettings) -> Result<(), BadValue> {
    let others = tune.select.iter().filter(|other| other.method == select.method && other.name != select.name);
    let mut shared = others.filter(|other| !(other.grid.is_empty() && select.grid.is_empty()));
    let chosen = select.parameters();
    match shared.find_map(|other| other.parameters().into_iter().find(|parameter| chosen.contains(parameter))) {
        None => Ok(()),
        Some(twice) => {
            let key = if select.grid.is_empty() { "parameter" } else { "grid" };
            let found = format!("{twice}, which another search of method `{}` chooses, too", select.method);
            Err(BadValue::new(key, found, "parameters that one search chooses, where one of them has a grid"))
        }
    }
}

/// Checks that the job computes a search's measure.
fn check_measure(select: &SearchSettings, tune: &TuneSettings, job: &Job) -> Result<(), BadValue> {
    let format = tune.format.or(job.dataset.format).unwrap_or(Format::World);
    check_measure_name(tune.measure_of(select), format, job)
}

/// Checks that a job over questions of a format computes the measure.
pub(super) fn check_measure_name(measure: &str, format: Format, job: &Job) -> Result<(), BadValue> {
    // Impossible settings of measures are refused when the run is made.
    let Ok(measures) = MeasureSet::new(&job.measures, profile_of(format)) else { return Ok(()) };
    ensure(measures.names().iter().any(|name| name == measure), || {
        let allowed = "a measure of the job's [measures], such as recall_all@2 with 2 in `recall_at`";
        BadValue::new("measure", measure, allowed)
    })?;
    ensure_decides(measure, &measures.deciding_names())
}

/// Refuses a measure that is none of the `deciding` ones. Of measures over answered questions alone a candidate that
/// answers one, and rightly, would be the best of all; of counts neither direction is better.
pub(crate) fn ensure_decides(measure: &str, deciding: &[impl AsRef<str>]) -> Result<(), BadValue> {
    let deciding: Vec<&str> = deciding.iter().map(AsRef::as_ref).collect();
    ensure(deciding.contains(&measure), || {
        let found = format!("{measure}; those that can decide are {}", deciding.join(", "));
        let allowed = "one of these: a share, of which more is better, in which failed outcomes count";
        BadValue::new("measure", found, allowed)
    })
}

fn check_infill(infill: &InfillSettings, job: &Job) -> Result<(), BadValue> {
    // Outside a run nobody drains, waits out an outage, or journals a paid answer at once.
    let writes = |name: &str| {
        let settings = job.service.get(name).map(|service| service.settings());
        settings.is_some_and(|settings| settings.may_answer(RequestKind::Generate) && !settings.is_paid())
    };
    ensure(writes(&infill.service), || {
        BadValue::new("service", &infill.service, "the name of a service of kind \"lm\"")
    })?;
    let templates = &infill.templates;
    ensure(!templates.is_empty(), || BadValue::new("templates", "[]", "at least one template"))?;
    if let Some(without) = templates.iter().find(|template| !template.text().contains(BLANK)) {
        return Err(BadValue::new("templates", without.text(), "texts with at least one {blank}"));
    }
    for template in templates {
        if let Template::Placed { position, .. } = template {
            ensure(["after", "before"].contains(&position.as_str()), || {
                BadValue::new("templates", position, "the positions after and before")
            })?;
        }
    }
    ensure(infill.frame.matches(PLACE).count() == 1, || {
        BadValue::new("frame", &infill.frame, "a text with {instruction} once")
    })?;
    ensure(infill.draws > 0 && infill.max_tokens > 0, || BadValue::new("draws, max_tokens", "0", "at least 1"))?;
    ensure(infill.temperature.is_finite() && infill.temperature > 0.0, || {
        BadValue::new("temperature", infill.temperature.to_string(), "a number above 0")
    })
}

/// Whether a text can name an object in a store of any kind.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().all(plain) && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.len() <= 128
}

#[cfg(test)]
mod tests {
    use crate::Job;
    use std::path::Path;

    const HEAD: &str = "name = \"t\"\n[dataset]\nformat = \"hotpotqa\"\nquestions = \"dev.json\"\n\
        [corpus]\nsource = \"contexts\"\n\
        [service.s]\nkind = \"bm25\"\n[service.t5]\nkind = \"lm\"\nmodel = \"hopeval:scorer\"\n\
        [method.m]\nkind = \"promptrank\"\nretriever = \"s\"\nscorer = \"t5\"\n";

    fn message(rest: &str) -> String {
        match Job::parse(&format!("{HEAD}{rest}"), Path::new("job.toml"), &[]) {
            Ok(_) => panic!("{rest} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    /// A sweep of two values each of so many keys.
    fn wide_grid(keys: usize) -> String {
        let keys: String = (0..keys).map(|key| format!("key{key} = [1, 2]\n")).collect();
        format!("[method.m.sweep]\n{keys}")
    }

    #[test]
    fn a_sample_of_the_dataset_itself_is_not_evaluated() {
        let job = Job::parse(&format!("{HEAD}[tune]\nsample = 9\nseed = 4\n"), Path::new("job.toml"), &[]).unwrap();
        let (draw, sample) = (job.dataset.draw.unwrap(), job.tune.as_ref().unwrap().over_sample(&job));
        assert_eq!((draw.questions, draw.seed, draw.rest), (9, 4, true));
        assert_eq!(sample.dataset.draw.map(|draw| (draw.questions, draw.seed, draw.rest)), Some((9, 4, false)));
        // The shown job parses to the same job.
        let shown = toml::to_string_pretty(&job).unwrap();
        assert_eq!(toml::to_string_pretty(&Job::parse(&shown, Path::new("/job.toml"), &[]).unwrap()).unwrap(), shown);
        // Some of the others alone.
        let some = "[tune]\nsample = 9\nseed = 4\n[dataset.draw]\nquestions = 20\nseed = 4\nafter = 9\n";
        let job = Job::parse(&format!("{HEAD}{some}"), Path::new("job.toml"), &[]).unwrap();
        let (draw, sample) = (job.dataset.draw.unwrap(), job.tune.as_ref().unwrap().over_sample(&job));
        assert_eq!((draw.questions, draw.seed, draw.rest, draw.after), (20, 4, false, 9));
        assert_eq!(sample.dataset.draw.map(|draw| (draw.questions, draw.seed, draw.after)), Some((9, 4, 0)));
        let shown = toml::to_string_pretty(&job).unwrap();
        assert_eq!(toml::to_string_pretty(&Job::parse(&shown, Path::new("/job.toml"), &[]).unwrap()).unwrap(), shown);
        // Another source leaves the dataset whole.
        let job =
            Job::parse(&format!("{HEAD}[tune]\nquestions = \"train.json\"\n"), Path::new("/x/job.toml"), &[]).unwrap();
        assert_eq!(job.dataset.draw, None);
        assert_eq!(job.tune.unwrap().questions.paths(), [Path::new("/x/train.json")]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let select = |rest: &str| {
            format!("[tune]\n[[tune.select]]\nname = \"a\"\nmethod = \"m\"\nparameter = \"temperature\"\n{rest}")
        };
        let joint = |rest: &str| select(rest).replace("parameter = \"temperature\"\n", "");
        let long = format!("{:?}", (0..101).collect::<Vec<_>>());
        let race = |rest: &str| select(&format!("candidates = [1, 2, 3, 4, 5]\n[tune.select.race]\n{rest}"));
        let drawn = |rest: &str| format!("[method.m.sweep]\nhops = [1, 2]\n[method.m.sweep_draw]\n{rest}");
        let grid = |rest: &str| format!("[method.m.sweep]\nhops = [1, 2, 3]\ntemperature = [1.0, 2.0]\n{rest}");
        let swept_race = |rest: &str| grid(&format!("[method.m.race]\nmeasure = \"recall_all@2\"\n{rest}"));
        for (rest, expected) in [
            ("[tune]\nsample = 0\n".to_owned(), "`tune.sample` = 0; allowed: at least 1"),
            (select("candidates = []\n"), "`tune.select[0].candidates` = []; allowed: at least one value"),
            (select("candidates = [1.0, 1.0]\n"), "1.0 twice"),
            (select("candidates = [1.0]\nmeasure = \"recall_all@3\"\n"), "`tune.select[0].measure` = recall_all@3"),
            (
                select("candidates = [1.0]\nmeasure = \"f1_answered\"\n"),
                "`tune.select[0].measure` = f1_answered; those that can decide are em, f1, precision, recall, recall_",
            ),
            (
                select("candidates = [1.0]\nmeasure = \"chunks\"\n[measures]\nchunk_recall = true\n"),
                "joint_recall; allowed: one of these: a share, of which more is better, in which failed outcomes count",
            ),
            (
                swept_race("[measures]\nchunks_with_repeats = true\n").replace("recall_all@2", "chunks_with_repeats"),
                "`method.m.race.measure` = chunks_with_repeats; those that can decide are em, f1, precision, recall",
            ),
            (select("[tune.select.generate]\nservice = \"s\"\n"), "`tune.select[0].generate.service` = s"),
            (select("[tune.select.generate]\nservice = \"t5\"\ntemplates = [\"no blank\"]\n"), "at least one {blank}"),
            (select("candidates = [1.0]\n").replace("\"m\"", "\"n\""), "the name of a [method.NAME]"),
            (select("candidates = [1.0]\n").replace("\"a\"", "\"../a\""), "`tune.select[0].name` = ../a"),
            (select("candidates = [1.0]\n[method.m.sweep]\nhops = [1]\n"), "a method without [sweep]"),
            (
                select("candidates = [1.0]\n").replace("parameter = \"temperature\"\n", ""),
                "`tune.select[0].parameter` = nothing; allowed: a parameter of the method, or a table `grid`",
            ),
            (select("[tune.select.grid]\nhops = [1]\n"), "`tune.select[0].parameter` = set beside `grid`"),
            (joint("candidates = [1]\n[tune.select.grid]\nhops = [1]\n"), "`tune.select[0].candidates` = set beside"),
            (joint("[tune.select.grid]\nhops = [1]\n"), "`tune.select[0].grid` = one parameter; allowed: two param"),
            (joint("[tune.select.grid]\nhops = [1]\nkind = [2]\n"), "`tune.select[0].grid` = kind"),
            (joint("[tune.select.grid]\nhops = [1]\nfanout = []\n"), "`tune.select[0].grid.fanout` = []"),
            (joint("[tune.select.grid]\nhops = [1, 1]\nfanout = [2]\n"), "`tune.select[0].grid.hops` = 1 twice"),
            (
                joint(&format!("[tune.select.grid]\nhops = {long}\nfanout = {long}\n")),
                "`tune.select[0].grid` = 10201 candidates; allowed: at most 10000 candidates",
            ),
            (
                joint("[tune.select.grid]\nhops = [1]\nfanout = [2]\n")
                    + "[method.x]\nkind = \"promptrank\"\nretriever = \"s\"\nscorer = \"t5\"\n\
                       hops = { selection = \"a\" }\n",
                "`tune.select[0].grid` = chosen together, and method `x` takes hops; allowed: a method takes all",
            ),
            (
                joint("[tune.select.grid]\nhops = [1]\nfanout = [2]\n")
                    + "[method.x]\nkind = \"promptrank\"\nretriever = \"s\"\nscorer = \"t5\"\n\
                       hops = { selection = \"a\", best = 2 }\nfanout = { selection = \"a\" }\n",
                "and method `x` takes fanout, hops with `best`",
            ),
            (
                joint("[tune.select.grid]\nhops = [1]\nfanout = [2]\n")
                    + "[[tune.select]]\nname = \"b\"\nmethod = \"m\"\nparameter = \"hops\"\ncandidates = [1]\n",
                "`tune.select[0].grid` = hops, which another search of method `m` chooses, too",
            ),
            (
                joint("[tune.select.grid]\nhops = [1]\nfanout = [2, 3]\n[tune.select.race]\nleast = 2\n"),
                "`tune.select[0].race.least` = 2; allowed: at least 1 and fewer than the cand",
            ),
            (race("first = 1\n"), "`tune.select[0].race.first` = 1; allowed: at least 2 and fewer than `tune.sample`"),
            (race("first = 128\n"), "`tune.select[0].race.first` = 128"),
            (race("").replace("[tune]\n", "[tune]\nsample = 16\n"), "`tune.select[0].race.first` = 16"),
            (race("factor = 1\n"), "`tune.select[0].race.factor` = 1; allowed: at least 2"),
            (race("least = 0\n"), "`tune.select[0].race.least` = 0; allowed: at least 1 and fewer than the cand"),
            (race("least = 5\n"), "`tune.select[0].race.least` = 5"),
            (race("margin = -0.5\n"), "`tune.select[0].race.margin` = -0.5; allowed: a number of standard errors"),
            (race("rate = 2\n"), "unknown field `rate`, expected one of `first`, `factor`, `least`, `margin`"),
            (
                race("least = 2\n")
                    + "[method.x]\nkind = \"promptrank\"\nretriever = \"s\"\nscorer = \"t5\"\n\
                    temperature = { selection = \"a\", best = 3 }\n",
                "`tune.select[0].race.least` = 2, and a method takes the best 3",
            ),
            ("[dataset.draw]\nquestions = 3\n[tune]\n".to_owned(), "`dataset.draw` = 3 questions by seed 0 after 0"),
            (
                "[dataset.draw]\nquestions = 3\nafter = 127\n[tune]\n".to_owned(),
                "`dataset.draw` = 3 questions by seed 0 after 127; allowed: nothing, since",
            ),
            (
                "[dataset.draw]\nquestions = 3\nafter = 128\nseed = 1\n[tune]\n".to_owned(),
                "`dataset.draw` = 3 questions by seed 1 after 128",
            ),
            (
                "[dataset.draw]\nquestions = 3\nafter = 2\nrest = true\n".to_owned(),
                "`dataset.draw.after` = 2; allowed: 0 with `rest`",
            ),
            ("[method.m.replicates]\nhops = [1]\n".to_owned(), "`method.m.replicates.hops` = 1 values"),
            (
                drawn("points = 3\n"),
                "`method.m.sweep_draw.points` = 3 of 2; allowed: at least 1 and at most the points",
            ),
            (drawn("points = 0\n"), "`method.m.sweep_draw.points` = 0 of 2"),
            (
                wide_grid(54) + "[method.m.sweep_draw]\npoints = 2\n",
                "`method.m.sweep` = more than 2^53 points; allowed: at most 2^53 points",
            ),
            (drawn("points = 1\nrate = 2\n"), "unknown field `rate`, expected `points` or `seed`"),
            ("[method.m.sweep_draw]\npoints = 1\n".to_owned(), "`method.m.sweep_draw` = a draw without [sweep]"),
            ("[run]\ntemperatures = [0.0]\n".to_owned(), "`run.temperatures` = 0"),
            (
                grid("[method.m.sweep_when]\nhops = { temperature = [3.0] }\n"),
                "`method.m.sweep_when.hops.temperature` = 3.0, and [sweep] has 1.0, 2.0; allowed: values of that",
            ),
            (
                grid("[method.m.sweep_when]\nhops = { temperature = [1.0] }\n[method.m.sweep_draw]\npoints = 6\n"),
                "`method.m.sweep_draw.points` = 6 of 4",
            ),
            (
                wide_grid(17) + "[method.m.sweep_when]\nkey1 = { key2 = [1] }\n",
                "`method.m.sweep` = 131072 points; allowed: at most 100000 points of a grid with [sweep_when]",
            ),
            (
                "[method.m.sweep]\nhops = [1, \"1\"]\n".to_owned(),
                "`method.m.sweep` = two configurations of the name `m{hops=1}`; allowed: values, and names of methods",
            ),
            (
                "[method.m.sweep]\ninstructions = [\"five.json\", { file = \"five.json\", contents = [\"Ask.\"] }]\n"
                    .to_owned(),
                "two configurations of the name `m{instructions=five.json}`",
            ),
            (
                "[method.m.sweep]\ninstructions = [\"a\", \"a,score=x\"]\nscore = [\"x\", \"x,score=x\"]\n".to_owned(),
                "two configurations of the name `m{instructions=a,score=x,score=x}`",
            ),
            (
                grid("[method.\"m{hops=2,temperature=1.0}\"]\nkind = \"oracle\"\n"),
                "`method.m{hops=2,temperature=1.0}` = two configurations of the name `m{hops=2,temperature=1.0}`",
            ),
            (swept_race("").replace("measure = \"recall_all@2\"\n", ""), "missing field `measure`"),
            (swept_race("").replace("recall_all@2", "recall_all@3"), "`method.m.race.measure` = recall_all@3"),
            (swept_race("first = 1\n"), "`method.m.race.first` = 1; allowed: at least 2"),
            (swept_race("least = 6\n"), "`method.m.race.least` = 6; allowed: at least 1 and fewer than the cand"),
            (swept_race("rate = 1\n"), "unknown field `rate`"),
            (
                swept_race("[method.m.replicates]\nscore = [\"mean\", \"mean\"]\n"),
                "`method.m.race` = a race of replicates; allowed: a race of a sweep without [replicates]",
            ),
            ("[method.m.race]\nmeasure = \"em\"\n".to_owned(), "`method.m.race` = a race without [sweep]"),
            (
                grid("[method.m.raced]\nstopped = []\nrace = { rungs = [] }\n"),
                "`method.m.raced` = decisions; allowed: nothing: a run writes its decisions there",
            ),
        ] {
            let message = message(&rest);
            assert!(message.contains(expected), "{rest}: {message}");
        }
    }
}
