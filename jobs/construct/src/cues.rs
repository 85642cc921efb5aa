//! Words by which questions ask for a relation.
//!
//! Relations have Wikidata's names, as in 2WikiMultihopQA's evidences, MuSiQue's `subject >> relation` steps and
//! generated worlds. The table lists further words that ask for a relation, besides its own.

use crate::words::{is_content, is_form_of, lower_case, split_words};

/// Relation: words that ask for it, in lower case.
const TABLE: &[(&str, &[&str])] = &[
    ("author", &["author", "writer", "wrote", "written", "novelist", "penned", "pen"]),
    (
        "award received",
        &["award", "awards", "won", "win", "winner", "received", "receive", "honour", "honoured", "prize"],
    ),
    ("capital", &["capital", "governed"]),
    ("cause of death", &["cause", "die", "died", "death", "why"]),
    ("child", &["child", "children", "son", "daughter"]),
    ("composer", &["composer", "composed", "score", "music", "soundtrack", "song"]),
    ("country", &["country", "nation"]),
    ("country of citizenship", &["country", "nationality", "citizen", "citizenship", "nation"]),
    ("country of origin", &["country", "nationality", "origin", "nation"]),
    (
        "date of birth",
        &["born", "birth", "birthday", "birthdate", "older", "younger", "age", "earlier", "later", "first"],
    ),
    ("date of death", &["die", "died", "death", "dead", "lived", "longer", "earlier", "later", "first"]),
    ("director", &["director", "directors", "directed", "filmmaker"]),
    (
        "educated at",
        &[
            "educated",
            "study",
            "studied",
            "attend",
            "attended",
            "graduated",
            "graduate",
            "degree",
            "university",
            "school",
            "alma",
            "mater",
            "college",
        ],
    ),
    ("employer", &["employer", "work", "works", "worked", "employed"]),
    ("father", &["father", "dad", "paternal", "grandfather", "grandmother", "law"]),
    ("flows through", &["flows", "flow", "runs", "banks", "river"]),
    ("founded by", &["founder", "founded", "entrepreneur", "established"]),
    ("headquarters location", &["headquartered", "headquarters", "head", "office", "offices"]),
    ("inception", &["established", "founded", "formed", "inception", "charter", "doors"]),
    ("lead singer", &["singer", "fronts", "fronted", "voice"]),
    ("length", &["long", "length", "measure", "measures", "shorter", "longer"]),
    ("located in", &["located", "campus", "lecture", "halls"]),
    (
        "located in the administrative territorial entity",
        &["located", "county", "state", "district", "province", "region"],
    ),
    ("location of formation", &["formed", "formation", "together"]),
    ("mayor", &["mayor", "hall"]),
    ("mother", &["mother", "mom", "maternal", "grandmother", "grandfather"]),
    (
        "performer",
        &["performer", "performed", "singer", "sang", "artist", "band", "group", "recorded", "act", "album", "song"],
    ),
    ("place of birth", &["born", "birth", "birthplace"]),
    ("place of burial", &["buried", "burial", "grave"]),
    ("place of death", &["die", "died", "death"]),
    ("population", &["population", "people", "live", "counted", "inhabitants"]),
    ("presented in", &["presented", "ceremony", "winners"]),
    ("publication date", &["released", "release", "came", "premiere", "premiered", "published", "cinemas"]),
    ("publisher", &["publisher", "published", "house"]),
    ("record label", &["label", "issued", "signed"]),
    ("sibling", &["sibling", "brother", "sister", "uncle", "aunt"]),
    ("sponsor", &["sponsor", "sponsors", "sponsored", "pays"]),
    ("spouse", &["spouse", "wife", "husband", "married", "marry", "partner", "wed", "wedded", "law"]),
    ("starring", &["star", "stars", "starred", "starring", "cast", "lead", "actor", "performer"]),
];

/// The cues for a relation: its own content words and those of the table. Empty for a question without a relation.
pub(crate) fn relation_cues(relation: &str) -> Vec<String> {
    let folded = lower_case(relation);
    let own = split_words(&folded).into_iter().map(|word| word.text.to_owned()).filter(|word| is_content(word));
    let listed = TABLE.iter().filter(|(name, _)| *name == folded).flat_map(|(_, cues)| cues.iter());
    own.chain(listed.map(|cue| (*cue).to_owned())).collect()
}

/// Whether `word`, in lower case, is one of `cues` or a form of one.
pub(crate) fn asks_for(cues: &[String], word: &str) -> bool {
    cues.iter().any(|cue| is_form_of(cue, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_have_their_own_words_and_the_tables() {
        assert!(TABLE.is_sorted_by_key(|(name, _)| name));
        let birth = relation_cues("date of birth");
        assert!(asks_for(&birth, "born") && asks_for(&birth, "birth") && asks_for(&birth, "date"));
        assert!(!asks_for(&birth, "of") && !asks_for(&birth, "died"));
        assert!(asks_for(&relation_cues("shares border with"), "border"));
        assert!(relation_cues("").is_empty());
    }
}
