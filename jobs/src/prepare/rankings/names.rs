//! Finds the passages that files of rankings name.

use hopeval_corpus::{Corpus, PassageId};
use std::collections::HashMap;

/// A text as a field of a line that white space separates: `hopeval export` writes ids so.
pub fn exported_name(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("_")
}

/// The title that a name with `_` for white space may mean, as a TREC run needs it; `None` if it has none.
pub fn spaced_title(name: &str) -> Option<String> {
    name.contains('_').then(|| name.replace('_', " "))
}

/// The names of a corpus's passages in exports, as far as they differ from the ids.
#[derive(Default)]
pub(super) struct PassageNames {
    /// `None` for a name of several passages. Made when a name is no id.
    exported: Option<HashMap<String, Option<PassageId>>>,
}

impl PassageNames {
    /// The passage with this id; else with this name in exports; else the only one with this title, which may have `_`
    /// for white space ([`spaced_title`]). The error is the text of what was found.
    pub(super) fn find_passage(&mut self, corpus: &Corpus, name: &str) -> Result<PassageId, String> {
        if let Some(passage) = corpus.by_external_id(name) {
            return Ok(passage);
        }
        let exported = self.exported.get_or_insert_with(|| exported_names(corpus));
        let titled = match corpus.by_title(name) {
            [] => spaced_title(name).map_or(&[][..], |title| corpus.by_title(&title)),
            titled => titled,
        };
        match (exported.get(name), titled) {
            (Some(Some(passage)), _) | (None, [passage]) => Ok(*passage),
            (Some(None), _) => Err(format!("`{name}`, a name of several passages")),
            (None, []) => {
                let first = corpus.passages().next().map_or("", |passage| corpus.id(passage));
                Err(format!("`{name}`, which is no passage; the first one of the corpus is `{first}`"))
            }
            (None, several) => Err(format!("`{name}`, the title of {} passages", several.len())),
        }
    }
}

fn exported_names(corpus: &Corpus) -> HashMap<String, Option<PassageId>> {
    let mut names: HashMap<String, Option<PassageId>> = HashMap::new();
    for passage in corpus.passages() {
        let id = corpus.id(passage);
        let name = exported_name(id);
        if name != id {
            names.entry(name).and_modify(|known| *known = None).or_insert(Some(passage));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_in_ids_is_replaced() {
        assert_eq!(exported_name(" The  Shining\t(film)"), "The_Shining_(film)");
        assert_eq!(exported_name("a_b"), "a_b");
    }
}
