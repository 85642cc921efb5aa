//! The entities and facts of a world, computed on demand.
//!
//! An entity is a class and a number. A relation is a permutation of its subjects, folded onto its objects. So it can
//! be followed in both directions without a table: a director's films are found from the director's number.

use crate::draw::{Draw, Permutation, Purpose, hash, world_key};
use crate::names::{self, Holder, Parts, PersonName, Pool, capacity};
use crate::schema::{Class, Literal, RELATIONS, Range, RelationId, Role};
use crate::settings::{Split, WorldSettings};
use crate::wordlists::{CRAFTS, QUALITIES};

/// An entity: a class and a number within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entity {
    pub(crate) class: Class,
    pub(crate) index: u64,
}

/// The object of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    Entity(Entity),
    /// The text, and a number that orders values of its kind.
    Value(String, u64),
}

/// An entity's name in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// `the `, for names with an article.
    pub(crate) article: &'static str,
    pub(crate) name: String,
}

/// The world of one seed and split.
#[derive(Debug, Clone)]
pub(crate) struct Entities {
    pub(crate) key: u64,
    pub(crate) split: Split,
    parts: &'static Parts,
    counts: [u64; 11],
    offsets: [u64; 11],
    persons: Pool,
    cities: Pool,
    works: Pool,
    /// Pools without shared names, by class.
    plain: [Pool; 6],
    surnames: u64,
    roles: [(Role, u64, u64); 7],
    relations: [Permutation; RELATIONS.len()],
}

/// One entity in this many is well known.
const WELL_KNOWN: u64 = 20;

/// Shares of the passages that are not countries, in thousandths; persons take the rest.
const SHARES: [(Class, u64); 9] = [
    (Class::City, 90),
    (Class::River, 40),
    (Class::University, 45),
    (Class::Company, 120),
    (Class::Award, 20),
    (Class::Band, 80),
    (Class::Film, 160),
    (Class::Book, 90),
    (Class::Album, 75),
];

const PLAIN: [(Class, u64); 6] = [
    (Class::Country, capacity::COUNTRIES),
    (Class::River, capacity::RIVERS),
    (Class::University, capacity::PLACES * 4),
    (Class::Company, capacity::COMPANIES),
    (Class::Award, capacity::AWARDS),
    (Class::Band, capacity::BANDS),
];

/// Entities of each class in a world of `passages` passages.
fn counts(passages: u64) -> [u64; 11] {
    let mut counts = [0; 11];
    counts[Class::Country as usize] = (passages / 120).clamp(6, 180);
    let rest = passages - counts[Class::Country as usize];
    for (class, share) in SHARES {
        counts[class as usize] = rest * share / 1000;
    }
    counts[Class::Person as usize] = passages - counts.iter().sum::<u64>();
    counts
}

/// The roles of `persons` persons: for each role its first person and its number of persons.
fn roles(persons: u64) -> [(Role, u64, u64); 7] {
    let mut roles = [(Role::Director, 0, 0); 7];
    let (mut start, mut percent) = (0, 0);
    for (slot, (role, share)) in roles.iter_mut().zip(Role::SHARES) {
        percent += share;
        let end = persons * percent / 100;
        *slot = (role, start, end - start);
        start = end;
    }
    roles
}

impl Entities {
    pub(crate) fn new(settings: &WorldSettings) -> Self {
        let key = world_key(settings.seed, settings.split as u64);
        let counts = counts(settings.passages);
        let mut offsets = [0; 11];
        for class in 1..11 {
            offsets[class] = offsets[class - 1] + counts[class - 1];
        }
        let count = |class: Class| counts[class as usize];
        let collisions = settings.difficulty.name_collisions;
        let persons = Pool::new(key, 0, count(Class::Person), collisions, capacity::PERSONS);
        let cities = Pool::new(key, 1, count(Class::City), collisions, capacity::PLACES);
        let all_works = count(Class::Film) + count(Class::Book) + count(Class::Album);
        let works = Pool::new(key, 2, all_works, collisions, capacity::WORKS);
        let plain = std::array::from_fn(|n| {
            let (class, capacity) = PLAIN[n];
            Pool::new(key, 3 + n as u8, count(class), 0, capacity)
        });
        let surnames =
            (persons.bases() / u64::from(settings.difficulty.persons_per_surname)).clamp(8, capacity::SURNAMES);
        let relations = std::array::from_fn(|n| {
            let size = match RELATIONS[n].range {
                Range::CountryOfCity => cities.bases(),
                _ => count(RELATIONS[n].subject),
            };
            Permutation::new(key, Purpose::Relation(n as u16), size)
        });
        Self {
            key,
            split: settings.split,
            parts: names::parts(settings.split),
            counts,
            offsets,
            persons,
            cities,
            works,
            plain,
            surnames,
            roles: roles(count(Class::Person)),
            relations,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn count(&self, class: Class) -> u64 {
        self.counts[class as usize]
    }

    /// The entity's number among all.
    pub(crate) fn number(&self, entity: Entity) -> u64 {
        self.offsets[entity.class as usize] + entity.index
    }

    /// The entity with a number below [`Entities::len`].
    pub(crate) fn numbered(&self, number: u64) -> Entity {
        let place = self.offsets.partition_point(|&offset| offset <= number) - 1;
        Entity { class: Class::ALL[place], index: number - self.offsets[place] }
    }

    /// The nearest well-known entity of the class.
    pub(crate) fn well_known(&self, entity: Entity) -> Entity {
        Entity { index: entity.index - entity.index % WELL_KNOWN, ..entity }
    }

    pub(crate) fn role(&self, person: Entity) -> Role {
        let place = self.roles.partition_point(|&(_, start, _)| start <= person.index) - 1;
        self.roles[place].0
    }

    fn role_range(&self, role: Role) -> (u64, u64) {
        self.roles.iter().find(|(r, ..)| *r == role).map_or((0, 0), |&(_, start, size)| (start, size))
    }

    // Names.

    /// The entity's place in the pool of works.
    fn work_number(&self, entity: Entity) -> u64 {
        self.number(entity) - self.offsets[Class::Film as usize]
    }

    /// The pool of an entity's name, and its place among the holders of the name.
    fn holder(&self, entity: Entity) -> (&Pool, Holder) {
        let (pool, number) = match entity.class {
            Class::Person => (&self.persons, entity.index),
            Class::City => (&self.cities, entity.index),
            Class::Film | Class::Book | Class::Album => (&self.works, self.work_number(entity)),
            Class::Country => (&self.plain[0], entity.index),
            Class::River => (&self.plain[1], entity.index),
            Class::University => (&self.plain[2], entity.index),
            Class::Company => (&self.plain[3], entity.index),
            Class::Award => (&self.plain[4], entity.index),
            Class::Band => (&self.plain[5], entity.index),
        };
        (pool, pool.holder(number))
    }

    /// Whether another entity has the same name.
    pub(crate) fn shares_name(&self, entity: Entity) -> bool {
        let (pool, holder) = self.holder(entity);
        pool.holders(holder.base) > 1
    }

    /// The other entities of the same name.
    pub(crate) fn namesakes(&self, entity: Entity) -> Vec<Entity> {
        let (pool, own) = self.holder(entity);
        (0..pool.holders(own.base))
            .filter(|&rank| rank != own.rank)
            .filter_map(|rank| pool.entity(Holder { base: own.base, rank }))
            .map(|n| match entity.class {
                class if class.is_work() => self.numbered(self.offsets[Class::Film as usize] + n),
                class => Entity { class, index: n },
            })
            .collect()
    }

    pub(crate) fn person_name(&self, person: Entity) -> PersonName {
        let (pool, holder) = self.holder(person);
        names::person(self.parts, pool.spelling(holder.base), self.surnames)
    }

    /// The name with the `n`-th middle name of the same sort. `None` if it already has initials.
    pub(crate) fn long_name(&self, person: Entity, n: u64) -> Option<String> {
        let name = self.person_name(person);
        let (given, surname) = name.full.split_once(' ')?;
        let middle = self.parts.given[(n % 32 * 2 + u64::from(name.is_woman)) as usize];
        (surname == name.surname && middle != given).then(|| format!("{given} {middle} {surname}"))
    }

    /// The bare name, which others may share.
    pub(crate) fn name(&self, entity: Entity) -> String {
        let (pool, holder) = self.holder(entity);
        let n = pool.spelling(holder.base);
        match entity.class {
            Class::Country => names::country(self.parts, n),
            Class::City => names::place(self.parts, n),
            Class::River => names::river(self.parts, n),
            Class::University => names::university(self.parts, n),
            Class::Company => names::company(self.parts, n),
            Class::Award => names::award(self.parts, n),
            Class::Band => names::band(self.parts, n),
            Class::Person => names::person(self.parts, n, self.surnames).full,
            Class::Film | Class::Book | Class::Album => names::work(self.parts, n),
        }
    }

    /// The title of the entity's passage: unique in the corpus.
    pub(crate) fn title(&self, entity: Entity) -> String {
        let name = self.name(entity);
        let (_, holder) = self.holder(entity);
        if holder.rank == 0 {
            return name;
        }
        match entity.class {
            Class::City => format!("{name}, {}", self.name(self.country_of(entity))),
            Class::Person => format!("{name} ({}, born {})", self.role(entity).noun(), self.birth_year(entity)),
            class => format!("{name} ({} {})", self.work_year(entity), class.noun()),
        }
    }

    /// The entity's name in another passage or in an answer: towns with their country if their title has it.
    pub(crate) fn mention(&self, entity: Entity) -> Mention {
        let name = match entity.class {
            Class::City => self.title(entity),
            _ => self.name(entity),
        };
        Mention { article: if matches!(entity.class, Class::River | Class::Award) { "the " } else { "" }, name }
    }

    /// The entity's name in a question, unambiguous.
    pub(crate) fn pinpoint(&self, entity: Entity, with_noun: bool) -> String {
        let name = self.name(entity);
        let shared = self.shares_name(entity);
        match entity.class {
            Class::River | Class::Award => format!("the {name}"),
            Class::City if shared => format!("{name}, {}", self.name(self.country_of(entity))),
            Class::Person if shared => {
                format!("the {} {name} (born {})", self.role(entity).noun(), self.birth_year(entity))
            }
            Class::Person if with_noun => format!("the {} {name}", self.role(entity).noun()),
            class if class.is_work() && shared => format!("the {} {} {name}", self.work_year(entity), class.noun()),
            class if class.is_work() && with_noun => format!("the {} {name}", class.noun()),
            Class::Company | Class::Band if with_noun => format!("the {} {name}", entity.class.noun()),
            _ => name,
        }
    }

    // Facts.

    fn birth_year(&self, person: Entity) -> u64 {
        let (_, holder) = self.holder(person);
        // 13 and 96 are coprime, so holders of one name differ.
        1900 + (hash(self.key, Purpose::Attribute(0), holder.base) % 96 + 13 * holder.rank) % 96
    }

    fn work_year(&self, work: Entity) -> u64 {
        let (_, holder) = self.holder(work);
        1921 + (hash(self.key, Purpose::Attribute(1), holder.base) % 99 + 10 * holder.rank) % 99
    }

    fn country_of(&self, city: Entity) -> Entity {
        let (_, holder) = self.holder(city);
        let order = self.permutation(Range::CountryOfCity);
        Entity { class: Class::Country, index: (order.apply(holder.base) + holder.rank) % self.count(Class::Country) }
    }

    fn permutation(&self, range: Range) -> &Permutation {
        let place = RELATIONS.iter().position(|r| r.range == range).unwrap_or(0);
        &self.relations[place]
    }

    /// Two things that a person, a work or a place is known for. Each is two words, shared with few others of the
    /// class.
    pub(crate) fn known_for(&self, entity: Entity) -> [(&'static str, &'static str); 2] {
        let mut draw = Draw::new(self.key, Purpose::Attribute(2), self.number(entity));
        let crafts = CRAFTS[entity.class as usize];
        let first = draw.below(crafts.len() as u64) as usize;
        let second = (first + 1 + draw.below(crafts.len() as u64 - 1) as usize) % crafts.len();
        [first, second].map(|craft| (draw.pick(&QUALITIES), crafts[craft]))
    }

    /// The possible objects of a relation: a class, the first one and their number.
    fn range(&self, range: Range) -> Option<(Class, u64, u64)> {
        match range {
            Range::Class(class) => Some((class, 0, self.count(class))),
            Range::Role(role) => {
                let (start, size) = self.role_range(role);
                Some((Class::Person, start, size))
            }
            Range::Spouse | Range::CountryOfCity | Range::CityOfCountry | Range::Literal(_) => None,
        }
    }

    /// The object of a relation. `None` only for the odd person out, who is unmarried.
    pub(crate) fn object(&self, relation: RelationId, subject: Entity) -> Option<Object> {
        let schema = relation.relation();
        let order = &self.relations[relation.0 as usize];
        if let Some((class, first, size)) = self.range(schema.range) {
            return Some(Object::Entity(Entity { class, index: first + order.apply(subject.index) % size }));
        }
        match schema.range {
            Range::Spouse => {
                let other = order.apply(subject.index) ^ 1;
                (other < self.count(Class::Person))
                    .then(|| Object::Entity(Entity { class: Class::Person, index: order.invert(other) }))
            }
            Range::CountryOfCity => Some(Object::Entity(self.country_of(subject))),
            Range::CityOfCountry => {
                let base = self.permutation(Range::CountryOfCity).invert(subject.index);
                let index = self.cities.entity(Holder { base, rank: 0 })?;
                Some(Object::Entity(Entity { class: Class::City, index }))
            }
            Range::Literal(literal) => Some(self.value(literal, subject)),
            Range::Class(_) | Range::Role(_) => None,
        }
    }

    fn value(&self, literal: Literal, subject: Entity) -> Object {
        let mut draw = Draw::new(self.key, Purpose::Attribute(3), self.number(subject));
        match literal {
            Literal::WorkYear => {
                let year = self.work_year(subject);
                Object::Value(year.to_string(), year)
            }
            Literal::BirthDate => {
                const MONTHS: [(&str, u64); 12] = [
                    ("January", 31),
                    ("February", 28),
                    ("March", 31),
                    ("April", 30),
                    ("May", 31),
                    ("June", 30),
                    ("July", 31),
                    ("August", 31),
                    ("September", 30),
                    ("October", 31),
                    ("November", 30),
                    ("December", 31),
                ];
                let (year, month) = (self.birth_year(subject), draw.below(12));
                let (name, days) = MONTHS[month as usize];
                let day = 1 + draw.below(days);
                Object::Value(format!("{day} {name} {year}"), (year * 12 + month) * 31 + day)
            }
            Literal::FoundingYear => {
                let year = 1400 + draw.below(590);
                Object::Value(year.to_string(), year)
            }
            Literal::Population => {
                let people = (10 + draw.below(90)) * [100, 1000, 10_000][draw.below(3) as usize] + draw.below(100);
                Object::Value(grouped(people), people)
            }
            Literal::Length => {
                let km = 20 + draw.below(1500);
                Object::Value(format!("{km} kilometres"), km)
            }
        }
    }

    /// The `n`-th subject with `object` as its object, counting around if there are fewer; `None` if there are no
    /// subjects.
    pub(crate) fn subject(&self, relation: RelationId, object: Entity, n: u64) -> Option<Entity> {
        let schema = relation.relation();
        let class = schema.subject;
        let order = &self.relations[relation.0 as usize];
        if schema.range == Range::CountryOfCity {
            let bases = self.cities.bases();
            let countries = self.count(Class::Country);
            let base = object.index + n % (bases - object.index).div_ceil(countries) * countries;
            let index = self.cities.entity(Holder { base: order.invert(base), rank: 0 })?;
            return Some(Entity { class, index });
        }
        let (_, first, size) = self.range(schema.range)?;
        let place = object.index.checked_sub(first).filter(|&place| place < size)?;
        let subjects = self.count(class).checked_sub(place).filter(|&left| left > 0)?.div_ceil(size);
        Some(Entity { class, index: order.invert(place + n % subjects * size) })
    }
}

/// Digits in groups of three, with commas.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + 2);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
