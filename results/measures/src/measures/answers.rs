//! The measures of all profiles: the profile's scores of an answer, and the first two of them over answered questions
//! only.

use crate::answer::Profile;
use crate::registry::Column;

/// The names are the profile's ([`Profile::measures`]).
pub(crate) fn answer_columns(profile: Profile) -> Vec<Column> {
    let all = profile.measures().iter().enumerate().map(|(field, name)| {
        Column::new((*name).to_owned(), profile.version(), move |input| Some(input.answer?.fields()[field]))
    });
    let answered = profile.measures().iter().enumerate().take(2).map(|(field, name)| {
        let value = Column::new(format!("{name}_answered"), profile.version(), move |input| {
            let answer = input.answer.filter(|_| input.outcome.answer.is_some())?;
            Some(answer.fields()[field])
        });
        value.none_if_failed()
    });
    all.chain(answered).collect()
}
