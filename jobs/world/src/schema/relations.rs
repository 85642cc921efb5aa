//! The table of relations and their wordings.

use super::{EntityClass, LiteralKind, ObjectRange, PersonRole, Relation};

/// Default fields, for most relations.
const NONE: Relation = Relation {
    name: "",
    subject: EntityClass::Person,
    range: ObjectRange::Spouse,
    held_out: false,
    says: ["", "", ""],
    says_back: None,
    phrase: None,
    asks: ["", "", ""],
    same: None,
    first: None,
    last: None,
};

/// Every relation. The order is part of the generator: it numbers the streams of random numbers.
pub(crate) const RELATIONS: [Relation; 27] = [
    Relation {
        name: "director",
        subject: EntityClass::Film,
        range: ObjectRange::Role(PersonRole::Director),
        says: ["{s} was directed by {o}", "{o} directed {s}", "{s} was made under the direction of {o}"],
        says_back: Some([
            "{s} directed {o}",
            "the feature {o} was directed by {s}",
            "{s} sat in the director's chair for {o}",
        ]),
        phrase: Some(["the director of {x}", "the person who directed {x}", "the filmmaker behind {x}"]),
        asks: ["Who directed {x}?", "Who is the director of {x}?", "Which filmmaker was behind {x}?"],
        same: Some([
            "Were {a} and {b} directed by the same person?",
            "Do {a} and {b} have the same director?",
            "Is one and the same filmmaker behind {a} and {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "starring",
        subject: EntityClass::Film,
        range: ObjectRange::Role(PersonRole::Actor),
        says: ["{s} stars {o} in the leading role", "the lead in {s} is played by {o}", "{o} heads the cast of {s}"],
        says_back: Some(["{s} played the lead in {o}", "{s} starred in {o}", "{s} headed the cast of {o}"]),
        phrase: Some([
            "the star of {x}",
            "the actor who played the lead in {x}",
            "the performer heading the cast of {x}",
        ]),
        asks: ["Who stars in {x}?", "Which actor played the lead in {x}?", "Who heads the cast of {x}?"],
        same: Some([
            "Do {a} and {b} have the same star?",
            "Did the same actor play the lead in {a} and {b}?",
            "Is the cast of {a} headed by the same performer as that of {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "publication date",
        subject: EntityClass::Film,
        range: ObjectRange::Literal(LiteralKind::WorkYear),
        says: ["{s} was released in {o}", "{s} came to cinemas in {o}", "{s} had its premiere in {o}"],
        asks: [
            "In what year was {x} released?",
            "When did {x} come to cinemas?",
            "What was the year of the premiere of {x}?",
        ],
        same: Some([
            "Were {a} and {b} released in the same year?",
            "Did {a} and {b} come to cinemas in the same year?",
            "Did {a} and {b} have their premieres in the same year?",
        ]),
        first: Some([
            "Which film was released first, {a} or {b}?",
            "Which came out earlier, {a} or {b}?",
            "Of {a} and {b}, which premiered before the other?",
        ]),
        last: Some([
            "Which film was released more recently, {a} or {b}?",
            "Which came out later, {a} or {b}?",
            "Of {a} and {b}, which premiered after the other?",
        ]),
        ..NONE
    },
    Relation {
        name: "composer",
        subject: EntityClass::Film,
        range: ObjectRange::Role(PersonRole::Musician),
        held_out: true,
        says: [
            "the score of {s} was composed by {o}",
            "{o} wrote the music for {s}",
            "the soundtrack of {s} is the work of {o}",
        ],
        says_back: Some([
            "{s} composed the score of {o}",
            "{s} wrote the music for {o}",
            "the soundtrack of {o} is the work of {s}",
        ]),
        phrase: Some([
            "the composer of the score of {x}",
            "the musician who wrote the music for {x}",
            "the person responsible for the soundtrack of {x}",
        ]),
        asks: [
            "Who composed the score of {x}?",
            "Who wrote the music for {x}?",
            "Who was responsible for the soundtrack of {x}?",
        ],
        same: Some([
            "Were the scores of {a} and {b} composed by the same person?",
            "Did the same musician write the music for {a} and {b}?",
            "Are the soundtracks of {a} and {b} the work of one person?",
        ]),
        ..NONE
    },
    Relation {
        name: "author",
        subject: EntityClass::Book,
        range: ObjectRange::Role(PersonRole::Writer),
        says: ["{s} was written by {o}", "{o} is the author of {s}", "{s} came from the pen of {o}"],
        says_back: Some(["{s} wrote {o}", "{s} is the author of {o}", "{o} came from the pen of {s}"]),
        phrase: Some(["the author of {x}", "the writer of {x}", "the novelist who penned {x}"]),
        asks: ["Who wrote {x}?", "Who is the author of {x}?", "From whose pen did {x} come?"],
        same: Some([
            "Were {a} and {b} written by the same person?",
            "Do {a} and {b} have the same author?",
            "Did {a} and {b} come from the same pen?",
        ]),
        ..NONE
    },
    Relation {
        name: "publisher",
        subject: EntityClass::Book,
        range: ObjectRange::Class(EntityClass::Company),
        held_out: true,
        says: ["{s} was published by {o}", "{o} is the publisher of {s}", "{s} was brought out by {o}"],
        says_back: Some(["{s} published {o}", "{s} is the publisher of {o}", "{s} brought out {o}"]),
        phrase: Some(["the publisher of {x}", "the company that published {x}", "the house that brought out {x}"]),
        asks: ["Which company published {x}?", "Who is the publisher of {x}?", "Which house brought out {x}?"],
        same: Some([
            "Were {a} and {b} published by the same company?",
            "Do {a} and {b} have the same publisher?",
            "Did one house bring out {a} and {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "performer",
        subject: EntityClass::Album,
        range: ObjectRange::Class(EntityClass::Band),
        says: ["{s} is an album by {o}", "{s} was recorded by {o}", "{o} made {s} in a single session"],
        says_back: Some(["{s} recorded {o}", "{s} released {o}", "{s} made {o} in a single session"]),
        phrase: Some(["the band that recorded {x}", "the group behind {x}", "the act whose album is {x}"]),
        asks: ["Which band recorded {x}?", "Which group is behind {x}?", "Whose album is {x}?"],
        same: Some([
            "Were {a} and {b} recorded by the same band?",
            "Is the same group behind {a} and {b}?",
            "Are {a} and {b} albums of one act?",
        ]),
        ..NONE
    },
    Relation {
        name: "record label",
        subject: EntityClass::Album,
        range: ObjectRange::Class(EntityClass::Company),
        held_out: true,
        says: ["{s} was issued by {o}", "the label of {s} is {o}", "{o} put out {s}"],
        says_back: Some(["{s} issued {o}", "{s} is the label of {o}", "{s} put out {o}"]),
        phrase: Some(["the label of {x}", "the company that issued {x}", "the firm that put out {x}"]),
        asks: ["Which company issued {x}?", "What is the label of {x}?", "Which firm put out {x}?"],
        same: Some([
            "Were {a} and {b} issued by the same company?",
            "Do {a} and {b} have the same label?",
            "Did one firm put out {a} and {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "lead singer",
        subject: EntityClass::Band,
        range: ObjectRange::Role(PersonRole::Musician),
        says: ["{s} is fronted by {o}", "the lead singer of {s} is {o}", "{o} provides the voice of {s}"],
        says_back: Some(["{s} fronts {o}", "{s} is the lead singer of {o}", "{s} provides the voice of {o}"]),
        phrase: Some(["the lead singer of {x}", "the musician who fronts {x}", "the voice of {x}"]),
        asks: ["Who is the lead singer of {x}?", "Who fronts {x}?", "Who provides the voice of {x}?"],
        same: Some([
            "Do {a} and {b} have the same lead singer?",
            "Are {a} and {b} fronted by the same person?",
            "Is one musician the voice of {a} and {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "location of formation",
        subject: EntityClass::Band,
        range: ObjectRange::Class(EntityClass::City),
        held_out: true,
        says: ["{s} was formed in {o}", "{s} got together in {o}", "the members of {s} met in {o}"],
        says_back: Some(["{o} was formed in {s}", "the band {o} got together in {s}", "the members of {o} met in {s}"]),
        phrase: Some([
            "the city where {x} was formed",
            "the place where {x} got together",
            "the city in which the members of {x} met",
        ]),
        asks: [
            "In which city was {x} formed?",
            "Where did {x} get together?",
            "In which city did the members of {x} meet?",
        ],
        same: Some([
            "Were {a} and {b} formed in the same city?",
            "Did {a} and {b} get together in the same place?",
            "Did the members of {a} meet in the same city as those of {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "founded by",
        subject: EntityClass::Company,
        range: ObjectRange::Role(PersonRole::Entrepreneur),
        says: ["{s} was founded by {o}", "the founder of {s} is {o}", "{s} goes back to a workshop set up by {o}"],
        says_back: Some(["{s} founded {o}", "{s} is the founder of {o}", "{s} set up the workshop that became {o}"]),
        phrase: Some(["the founder of {x}", "the person who founded {x}", "the entrepreneur who set up {x}"]),
        asks: ["Who founded {x}?", "Who is the founder of {x}?", "Which entrepreneur set up {x}?"],
        same: Some([
            "Were {a} and {b} founded by the same person?",
            "Do {a} and {b} have the same founder?",
            "Did one entrepreneur set up {a} and {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "headquarters location",
        subject: EntityClass::Company,
        range: ObjectRange::Class(EntityClass::City),
        says: ["{s} is headquartered in {o}", "the head office of {s} is in {o}", "{s} is run from {o}"],
        says_back: Some([
            "{o} is headquartered in {s}",
            "the head office of {o} is in {s}",
            "the company {o} is run from {s}",
        ]),
        phrase: Some([
            "the city where {x} is headquartered",
            "the home of the head office of {x}",
            "the city from which {x} is run",
        ]),
        asks: [
            "In which city is {x} headquartered?",
            "Where is the head office of {x}?",
            "From which city is {x} run?",
        ],
        same: Some([
            "Are {a} and {b} headquartered in the same city?",
            "Are the head offices of {a} and {b} in the same city?",
            "Are {a} and {b} run from one city?",
        ]),
        ..NONE
    },
    Relation {
        name: "country",
        subject: EntityClass::City,
        range: ObjectRange::CountryOfCity,
        says: ["{s} is a city in {o}", "{s} is located in {o}", "{s} belongs to {o}"],
        says_back: Some(["{o} is a city in {s}", "{o} is located in {s}", "among the towns that belong to {s} is {o}"]),
        phrase: Some(["the country of {x}", "the country where {x} is located", "the nation to which {x} belongs"]),
        asks: ["In which country is {x}?", "In what country is {x} located?", "To which nation does {x} belong?"],
        same: Some([
            "Are {a} and {b} in the same country?",
            "Are {a} and {b} located in the same country?",
            "Do {a} and {b} belong to one nation?",
        ]),
        ..NONE
    },
    Relation {
        name: "population",
        subject: EntityClass::City,
        range: ObjectRange::Literal(LiteralKind::Population),
        says: ["{s} has a population of {o}", "the population of {s} is {o}", "{o} people were counted in {s}"],
        asks: [
            "What is the population of {x}?",
            "How many people live in {x}?",
            "How many people were counted in {x}?",
        ],
        first: Some([
            "Which city has fewer inhabitants, {a} or {b}?",
            "Which is less populous, {a} or {b}?",
            "Of {a} and {b}, which is home to fewer people?",
        ]),
        last: Some([
            "Which city has more inhabitants, {a} or {b}?",
            "Which is more populous, {a} or {b}?",
            "Of {a} and {b}, which is home to more people?",
        ]),
        ..NONE
    },
    Relation {
        name: "mayor",
        subject: EntityClass::City,
        range: ObjectRange::Role(PersonRole::Politician),
        held_out: true,
        says: ["the mayor of {s} is {o}", "{o} serves as mayor of {s}", "the town hall of {s} is led by {o}"],
        says_back: Some(["{s} is the mayor of {o}", "{s} serves as mayor of {o}", "{s} leads the town hall of {o}"]),
        phrase: Some([
            "the mayor of {x}",
            "the politician who serves as mayor of {x}",
            "the person leading the town hall of {x}",
        ]),
        asks: ["Who is the mayor of {x}?", "Who serves as mayor of {x}?", "Who leads the town hall of {x}?"],
        ..NONE
    },
    Relation {
        name: "capital",
        subject: EntityClass::Country,
        range: ObjectRange::CityOfCountry,
        says: ["the capital of {s} is {o}", "{o} is the capital of {s}", "{s} is governed from {o}"],
        phrase: Some(["the capital of {x}", "the capital city of {x}", "the city from which {x} is governed"]),
        asks: ["What is the capital of {x}?", "Which city is the capital of {x}?", "From which city is {x} governed?"],
        ..NONE
    },
    Relation {
        name: "place of birth",
        subject: EntityClass::Person,
        range: ObjectRange::Class(EntityClass::City),
        says: ["{s} was born in {o}", "{o} is the birthplace of {s}", "{s} came into the world in {o}"],
        says_back: Some(["{o} was born in {s}", "{s} is the birthplace of {o}", "{o} came into the world in {s}"]),
        phrase: Some([
            "the birthplace of {x}",
            "the city where {x} was born",
            "the town in which {x} came into the world",
        ]),
        asks: ["Where was {x} born?", "What is the birthplace of {x}?", "In which town did {x} come into the world?"],
        same: Some([
            "Were {a} and {b} born in the same city?",
            "Do {a} and {b} share a birthplace?",
            "Did {a} and {b} come into the world in one town?",
        ]),
        ..NONE
    },
    Relation {
        name: "date of birth",
        subject: EntityClass::Person,
        range: ObjectRange::Literal(LiteralKind::BirthDate),
        says: ["{s} was born on {o}", "the birthday of {s} is {o}", "{s} first saw the light of day on {o}"],
        asks: ["When was {x} born?", "What is the date of birth of {x}?", "On what day did {x} first see the light?"],
        first: Some([
            "Who was born first, {a} or {b}?",
            "Who is older, {a} or {b}?",
            "Of {a} and {b}, who saw the light of day before the other?",
        ]),
        last: Some([
            "Who was born later, {a} or {b}?",
            "Who is younger, {a} or {b}?",
            "Of {a} and {b}, who saw the light of day after the other?",
        ]),
        ..NONE
    },
    Relation {
        name: "educated at",
        subject: EntityClass::Person,
        range: ObjectRange::Class(EntityClass::University),
        says: ["{s} was educated at {o}", "{s} studied at {o}", "{s} took a degree from {o}"],
        says_back: Some([
            "among those who were educated at {s} is {o}",
            "{o} studied at {s}",
            "{o} took a degree from {s}",
        ]),
        phrase: Some([
            "the university that {x} attended",
            "the university where {x} studied",
            "the school that gave {x} a degree",
        ]),
        asks: ["Where was {x} educated?", "At which university did {x} study?", "Which school gave {x} a degree?"],
        same: Some([
            "Were {a} and {b} educated at the same university?",
            "Did {a} and {b} study at the same university?",
            "Do {a} and {b} hold degrees from one school?",
        ]),
        ..NONE
    },
    Relation {
        name: "spouse",
        subject: EntityClass::Person,
        range: ObjectRange::Spouse,
        says: ["{s} is married to {o}", "the spouse of {s} is {o}", "{s} and {o} are a married couple"],
        phrase: Some(["the spouse of {x}", "the person married to {x}", "the partner that {x} wedded"]),
        asks: ["Who is the spouse of {x}?", "Who is married to {x}?", "Whom did {x} wed?"],
        ..NONE
    },
    Relation {
        name: "award received",
        subject: EntityClass::Person,
        range: ObjectRange::Class(EntityClass::Award),
        held_out: true,
        says: ["{s} received {o}", "{s} is a winner of {o}", "{s} was honoured with {o}"],
        says_back: Some(["{o} received {s}", "{o} is a winner of {s}", "{o} was honoured with {s}"]),
        phrase: Some(["the award received by {x}", "the award that {x} won", "the honour given to {x}"]),
        asks: ["Which award did {x} receive?", "Which award did {x} win?", "With which honour was {x} decorated?"],
        same: Some([
            "Did {a} and {b} receive the same award?",
            "Did {a} and {b} win the same award?",
            "Were {a} and {b} honoured alike?",
        ]),
        ..NONE
    },
    Relation {
        name: "located in",
        subject: EntityClass::University,
        range: ObjectRange::Class(EntityClass::City),
        says: ["{s} is located in {o}", "the campus of {s} is in {o}", "{s} has its lecture halls in {o}"],
        says_back: Some([
            "{o} is located in {s}",
            "the campus of {o} is in {s}",
            "{s} houses the lecture halls of {o}",
        ]),
        phrase: Some([
            "the city where {x} is located",
            "the home of the campus of {x}",
            "the city with the lecture halls of {x}",
        ]),
        asks: [
            "In which city is {x} located?",
            "Where is the campus of {x}?",
            "Which city houses the lecture halls of {x}?",
        ],
        same: Some([
            "Are {a} and {b} located in the same city?",
            "Are the campuses of {a} and {b} in the same city?",
            "Does one city house the lecture halls of {a} and {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "inception",
        subject: EntityClass::University,
        range: ObjectRange::Literal(LiteralKind::FoundingYear),
        held_out: true,
        says: ["{s} was established in {o}", "{s} opened its doors in {o}", "the charter of {s} dates from {o}"],
        asks: [
            "When was {x} established?",
            "In what year did {x} open its doors?",
            "From what year dates the charter of {x}?",
        ],
        first: Some([
            "Which university was established first, {a} or {b}?",
            "Which is older, {a} or {b}?",
            "Of {a} and {b}, which has the earlier charter?",
        ]),
        last: Some([
            "Which university was established later, {a} or {b}?",
            "Which is younger, {a} or {b}?",
            "Of {a} and {b}, which has the later charter?",
        ]),
        ..NONE
    },
    Relation {
        name: "flows through",
        subject: EntityClass::River,
        range: ObjectRange::Class(EntityClass::City),
        says: ["{s} flows through {o}", "{s} runs through {o}", "the banks of {s} are lined by the houses of {o}"],
        says_back: Some(["{o} flows through {s}", "{o} runs through {s}", "the houses of {s} line the banks of {o}"]),
        phrase: Some([
            "the city that {x} flows through",
            "the city through which {x} runs",
            "the town on the banks of {x}",
        ]),
        asks: [
            "Which city does {x} flow through?",
            "Through which city does {x} run?",
            "Which town lies on the banks of {x}?",
        ],
        same: Some([
            "Do {a} and {b} flow through the same city?",
            "Do {a} and {b} run through the same city?",
            "Is one town on the banks of {a} and {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "length",
        subject: EntityClass::River,
        range: ObjectRange::Literal(LiteralKind::Length),
        held_out: true,
        says: ["{s} is {o} long", "the length of {s} is {o}", "from source to mouth {s} measures {o}"],
        asks: ["How long is {x}?", "What is the length of {x}?", "What does {x} measure from source to mouth?"],
        first: Some([
            "Which river is shorter, {a} or {b}?",
            "Which has the smaller length, {a} or {b}?",
            "Of {a} and {b}, which measures less from source to mouth?",
        ]),
        last: Some([
            "Which river is longer, {a} or {b}?",
            "Which has the greater length, {a} or {b}?",
            "Of {a} and {b}, which measures more from source to mouth?",
        ]),
        ..NONE
    },
    Relation {
        name: "presented in",
        subject: EntityClass::Award,
        range: ObjectRange::Class(EntityClass::City),
        says: ["{s} is presented in {o}", "the ceremony of {s} is held in {o}", "the winners of {s} gather in {o}"],
        says_back: Some([
            "{o} is presented in {s}",
            "the ceremony of {o} is held in {s}",
            "the winners of {o} gather in {s}",
        ]),
        phrase: Some([
            "the city where {x} is presented",
            "the home of the ceremony of {x}",
            "the city where the winners of {x} gather",
        ]),
        asks: [
            "In which city is {x} presented?",
            "Where is the ceremony of {x} held?",
            "Where do the winners of {x} gather?",
        ],
        same: Some([
            "Are {a} and {b} presented in the same city?",
            "Are the ceremonies of {a} and {b} held in the same city?",
            "Do the winners of {a} gather in the same city as those of {b}?",
        ]),
        ..NONE
    },
    Relation {
        name: "sponsor",
        subject: EntityClass::Award,
        range: ObjectRange::Class(EntityClass::Company),
        held_out: true,
        says: ["{s} is sponsored by {o}", "the sponsor of {s} is {o}", "{o} pays for {s}"],
        says_back: Some(["{s} sponsors {o}", "{s} is the sponsor of {o}", "{s} pays for {o}"]),
        phrase: Some(["the sponsor of {x}", "the company that sponsors {x}", "the firm that pays for {x}"]),
        asks: ["Which company sponsors {x}?", "Who is the sponsor of {x}?", "Which firm pays for {x}?"],
        same: Some([
            "Are {a} and {b} sponsored by the same company?",
            "Do {a} and {b} have the same sponsor?",
            "Does one firm pay for {a} and {b}?",
        ]),
        ..NONE
    },
];
