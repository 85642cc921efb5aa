//! The entities and facts of a world, computed on demand.
//!
//! An entity is a class and a number. A relation is a permutation of its subjects, folded onto its objects. So it can
//! be followed in both directions without a table: a director's films are found from the director's number.

use crate::names::{self, NameHolder, NameParts, NamePool, PersonName, capacity};
use crate::random_stream::{Permutation, RandomStream, StreamPurpose, hash_index, world_key};
use crate::schema::{EntityClass, LiteralKind, ObjectRange, PersonRole, RELATIONS, RelationId};
use crate::settings::{WorldSettings, WorldSplit};
use crate::wordlists::{CRAFTS, QUALITIES};

/// An entity: a class and a number within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entity {
    pub(crate) class: EntityClass,
    pub(crate) index: u64,
}

/// The object of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FactObject {
    Entity(Entity),
    /// The text, and a number that orders values of its kind.
    Value(String, u64),
}

/// An entity's name in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityMention {
    /// `the `, for names with an article.
    pub(crate) article: &'static str,
    pub(crate) name: String,
}

/// The world of one seed and split.
#[derive(Debug, Clone)]
pub(crate) struct Entities {
    pub(crate) key: u64,
    pub(crate) split: WorldSplit,
    parts: &'static NameParts,
    counts: [u64; 11],
    offsets: [u64; 11],
    persons: NamePool,
    cities: NamePool,
    works: NamePool,
    /// Pools without shared names, by class.
    plain: [NamePool; 6],
    surnames: u64,
    roles: [(PersonRole, u64, u64); 7],
    relations: [Permutation; RELATIONS.len()],
}

/// One entity in this many is well known.
const WELL_KNOWN: u64 = 20;

/// Shares of the passages that are not countries, in thousandths; persons take the rest.
const SHARES: [(EntityClass, u64); 9] = [
    (EntityClass::City, 90),
    (EntityClass::River, 40),
    (EntityClass::University, 45),
    (EntityClass::Company, 120),
    (EntityClass::Award, 20),
    (EntityClass::Band, 80),
    (EntityClass::Film, 160),
    (EntityClass::Book, 90),
    (EntityClass::Album, 75),
];

const PLAIN: [(EntityClass, u64); 6] = [
    (EntityClass::Country, capacity::COUNTRIES),
    (EntityClass::River, capacity::RIVERS),
    (EntityClass::University, capacity::PLACES * 4),
    (EntityClass::Company, capacity::COMPANIES),
    (EntityClass::Award, capacity::AWARDS),
    (EntityClass::Band, capacity::BANDS),
];

/// Entities of each class in a world of `passages` passages.
fn class_counts(passages: u64) -> [u64; 11] {
    let mut counts = [0; 11];
    counts[EntityClass::Country as usize] = (passages / 120).clamp(6, 180);
    let rest = passages - counts[EntityClass::Country as usize];
    for (class, share) in SHARES {
        counts[class as usize] = rest * share / 1000;
    }
    counts[EntityClass::Person as usize] = passages - counts.iter().sum::<u64>();
    counts
}

/// The roles of `persons` persons: for each role its first person and its number of persons.
fn role_ranges(persons: u64) -> [(PersonRole, u64, u64); 7] {
    let mut roles = [(PersonRole::Director, 0, 0); 7];
    let (mut start, mut percent) = (0, 0);
    for (slot, (role, share)) in roles.iter_mut().zip(PersonRole::SHARES) {
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
        let counts = class_counts(settings.passages);
        let mut offsets = [0; 11];
        for class in 1..11 {
            offsets[class] = offsets[class - 1] + counts[class - 1];
        }
        let count = |class: EntityClass| counts[class as usize];
        let collisions = settings.difficulty.name_collisions;
        let persons = NamePool::new(key, 0, count(EntityClass::Person), collisions, capacity::PERSONS);
        let cities = NamePool::new(key, 1, count(EntityClass::City), collisions, capacity::PLACES);
        let all_works = count(EntityClass::Film) + count(EntityClass::Book) + count(EntityClass::Album);
        let works = NamePool::new(key, 2, all_works, collisions, capacity::WORKS);
        let plain = std::array::from_fn(|n| {
            let (class, capacity) = PLAIN[n];
            NamePool::new(key, 3 + n as u8, count(class), 0, capacity)
        });
        let surnames =
            (persons.name_count() / u64::from(settings.difficulty.persons_per_surname)).clamp(8, capacity::SURNAMES);
        let relations = std::array::from_fn(|n| {
            let size = match RELATIONS[n].range {
                ObjectRange::CountryOfCity => cities.name_count(),
                _ => count(RELATIONS[n].subject),
            };
            Permutation::new(key, StreamPurpose::Relation(n as u16), size)
        });
        Self {
            key,
            split: settings.split,
            parts: names::name_parts(settings.split),
            counts,
            offsets,
            persons,
            cities,
            works,
            plain,
            surnames,
            roles: role_ranges(count(EntityClass::Person)),
            relations,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn class_size(&self, class: EntityClass) -> u64 {
        self.counts[class as usize]
    }

    /// The entity's number among all.
    pub(crate) fn number(&self, entity: Entity) -> u64 {
        self.offsets[entity.class as usize] + entity.index
    }

    /// The entity with a number below [`Entities::len`].
    pub(crate) fn entity_at(&self, number: u64) -> Entity {
        let place = self.offsets.partition_point(|&offset| offset <= number) - 1;
        Entity { class: EntityClass::ALL[place], index: number - self.offsets[place] }
    }

    /// The nearest well-known entity of the class.
    pub(crate) fn well_known(&self, entity: Entity) -> Entity {
        Entity { index: entity.index - entity.index % WELL_KNOWN, ..entity }
    }

    pub(crate) fn role(&self, person: Entity) -> PersonRole {
        let place = self.roles.partition_point(|&(_, start, _)| start <= person.index) - 1;
        self.roles[place].0
    }

    fn role_range(&self, role: PersonRole) -> (u64, u64) {
        self.roles.iter().find(|(r, ..)| *r == role).map_or((0, 0), |&(_, start, size)| (start, size))
    }

    // Names.

    /// The entity's place in the pool of works.
    fn work_number(&self, entity: Entity) -> u64 {
        self.number(entity) - self.offsets[EntityClass::Film as usize]
    }

    /// The pool of an entity's name, and its place among the holders of the name.
    fn name_holder(&self, entity: Entity) -> (&NamePool, NameHolder) {
        let (pool, number) = match entity.class {
            EntityClass::Person => (&self.persons, entity.index),
            EntityClass::City => (&self.cities, entity.index),
            EntityClass::Film | EntityClass::Book | EntityClass::Album => (&self.works, self.work_number(entity)),
            EntityClass::Country => (&self.plain[0], entity.index),
            EntityClass::River => (&self.plain[1], entity.index),
            EntityClass::University => (&self.plain[2], entity.index),
            EntityClass::Company => (&self.plain[3], entity.index),
            EntityClass::Award => (&self.plain[4], entity.index),
            EntityClass::Band => (&self.plain[5], entity.index),
        };
        (pool, pool.holder(number))
    }

    /// Whether another entity has the same name.
    pub(crate) fn shares_name(&self, entity: Entity) -> bool {
        let (pool, holder) = self.name_holder(entity);
        pool.holder_count(holder.base) > 1
    }

    /// The other entities of the same name.
    pub(crate) fn namesakes(&self, entity: Entity) -> Vec<Entity> {
        let (pool, own) = self.name_holder(entity);
        (0..pool.holder_count(own.base))
            .filter(|&rank| rank != own.rank)
            .filter_map(|rank| pool.entity(NameHolder { base: own.base, rank }))
            .map(|n| match entity.class {
                class if class.is_work() => self.entity_at(self.offsets[EntityClass::Film as usize] + n),
                class => Entity { class, index: n },
            })
            .collect()
    }

    pub(crate) fn person_name(&self, person: Entity) -> PersonName {
        let (pool, holder) = self.name_holder(person);
        names::person(self.parts, pool.spelling_number(holder.base), self.surnames)
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
        let (pool, holder) = self.name_holder(entity);
        let n = pool.spelling_number(holder.base);
        match entity.class {
            EntityClass::Country => names::country(self.parts, n),
            EntityClass::City => names::place(self.parts, n),
            EntityClass::River => names::river(self.parts, n),
            EntityClass::University => names::university(self.parts, n),
            EntityClass::Company => names::company(self.parts, n),
            EntityClass::Award => names::award(self.parts, n),
            EntityClass::Band => names::band(self.parts, n),
            EntityClass::Person => names::person(self.parts, n, self.surnames).full,
            EntityClass::Film | EntityClass::Book | EntityClass::Album => names::work(self.parts, n),
        }
    }

    /// The title of the entity's passage: unique in the corpus.
    pub(crate) fn title(&self, entity: Entity) -> String {
        let name = self.name(entity);
        let (_, holder) = self.name_holder(entity);
        if holder.rank == 0 {
            return name;
        }
        match entity.class {
            EntityClass::City => format!("{name}, {}", self.name(self.country_of(entity))),
            EntityClass::Person => format!("{name} ({}, born {})", self.role(entity).noun(), self.birth_year(entity)),
            class => format!("{name} ({} {})", self.work_year(entity), class.noun()),
        }
    }

    /// The entity's name in another passage or in an answer: towns with their country if their title has it.
    pub(crate) fn mention(&self, entity: Entity) -> EntityMention {
        let name = match entity.class {
            EntityClass::City => self.title(entity),
            _ => self.name(entity),
        };
        EntityMention {
            article: if matches!(entity.class, EntityClass::River | EntityClass::Award) { "the " } else { "" },
            name,
        }
    }

    /// The entity's name in a question, unambiguous.
    pub(crate) fn pinpoint(&self, entity: Entity, with_noun: bool) -> String {
        let name = self.name(entity);
        let shared = self.shares_name(entity);
        match entity.class {
            EntityClass::River | EntityClass::Award => format!("the {name}"),
            EntityClass::City if shared => format!("{name}, {}", self.name(self.country_of(entity))),
            EntityClass::Person if shared => {
                format!("the {} {name} (born {})", self.role(entity).noun(), self.birth_year(entity))
            }
            EntityClass::Person if with_noun => format!("the {} {name}", self.role(entity).noun()),
            class if class.is_work() && shared => format!("the {} {} {name}", self.work_year(entity), class.noun()),
            class if class.is_work() && with_noun => format!("the {} {name}", class.noun()),
            EntityClass::Company | EntityClass::Band if with_noun => format!("the {} {name}", entity.class.noun()),
            _ => name,
        }
    }

    // Facts.

    fn birth_year(&self, person: Entity) -> u64 {
        let (_, holder) = self.name_holder(person);
        // 13 and 96 are coprime, so holders of one name differ.
        1900 + (hash_index(self.key, StreamPurpose::Attribute(0), holder.base) % 96 + 13 * holder.rank) % 96
    }

    fn work_year(&self, work: Entity) -> u64 {
        let (_, holder) = self.name_holder(work);
        1921 + (hash_index(self.key, StreamPurpose::Attribute(1), holder.base) % 99 + 10 * holder.rank) % 99
    }

    fn country_of(&self, city: Entity) -> Entity {
        let (_, holder) = self.name_holder(city);
        let order = self.permutation(ObjectRange::CountryOfCity);
        Entity {
            class: EntityClass::Country,
            index: (order.apply(holder.base) + holder.rank) % self.class_size(EntityClass::Country),
        }
    }

    fn permutation(&self, range: ObjectRange) -> &Permutation {
        let place = RELATIONS.iter().position(|r| r.range == range).unwrap_or(0);
        &self.relations[place]
    }

    /// Two things that a person, a work or a place is known for. Each is two words, shared with few others of the
    /// class.
    pub(crate) fn known_for(&self, entity: Entity) -> [(&'static str, &'static str); 2] {
        let mut random = RandomStream::new(self.key, StreamPurpose::Attribute(2), self.number(entity));
        let crafts = CRAFTS[entity.class as usize];
        let first = random.below(crafts.len() as u64) as usize;
        let second = (first + 1 + random.below(crafts.len() as u64 - 1) as usize) % crafts.len();
        [first, second].map(|craft| (random.pick(&QUALITIES), crafts[craft]))
    }

    /// The possible objects of a relation: a class, the first one and their number.
    fn object_range(&self, range: ObjectRange) -> Option<(EntityClass, u64, u64)> {
        match range {
            ObjectRange::Class(class) => Some((class, 0, self.class_size(class))),
            ObjectRange::Role(role) => {
                let (start, size) = self.role_range(role);
                Some((EntityClass::Person, start, size))
            }
            ObjectRange::Spouse | ObjectRange::CountryOfCity | ObjectRange::CityOfCountry | ObjectRange::Literal(_) => {
                None
            }
        }
    }

    /// The object of a relation. `None` only for the odd person out, who is unmarried.
    pub(crate) fn object_of(&self, relation: RelationId, subject: Entity) -> Option<FactObject> {
        let schema = relation.relation();
        let order = &self.relations[relation.0 as usize];
        if let Some((class, first, size)) = self.object_range(schema.range) {
            return Some(FactObject::Entity(Entity { class, index: first + order.apply(subject.index) % size }));
        }
        match schema.range {
            ObjectRange::Spouse => {
                let other = order.apply(subject.index) ^ 1;
                (other < self.class_size(EntityClass::Person))
                    .then(|| FactObject::Entity(Entity { class: EntityClass::Person, index: order.invert(other) }))
            }
            ObjectRange::CountryOfCity => Some(FactObject::Entity(self.country_of(subject))),
            ObjectRange::CityOfCountry => {
                let base = self.permutation(ObjectRange::CountryOfCity).invert(subject.index);
                let index = self.cities.entity(NameHolder { base, rank: 0 })?;
                Some(FactObject::Entity(Entity { class: EntityClass::City, index }))
            }
            ObjectRange::Literal(literal) => Some(self.literal_value(literal, subject)),
            ObjectRange::Class(_) | ObjectRange::Role(_) => None,
        }
    }

    fn literal_value(&self, literal: LiteralKind, subject: Entity) -> FactObject {
        let mut random = RandomStream::new(self.key, StreamPurpose::Attribute(3), self.number(subject));
        match literal {
            LiteralKind::WorkYear => {
                let year = self.work_year(subject);
                FactObject::Value(year.to_string(), year)
            }
            LiteralKind::BirthDate => {
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
                let (year, month) = (self.birth_year(subject), random.below(12));
                let (name, days) = MONTHS[month as usize];
                let day = 1 + random.below(days);
                FactObject::Value(format!("{day} {name} {year}"), (year * 12 + month) * 31 + day)
            }
            LiteralKind::FoundingYear => {
                let year = 1400 + random.below(590);
                FactObject::Value(year.to_string(), year)
            }
            LiteralKind::Population => {
                let people =
                    (10 + random.below(90)) * [100, 1000, 10_000][random.below(3) as usize] + random.below(100);
                FactObject::Value(group_digits(people), people)
            }
            LiteralKind::Length => {
                let km = 20 + random.below(1500);
                FactObject::Value(format!("{km} kilometres"), km)
            }
        }
    }

    /// The `n`-th subject with `object` as its object, counting around if there are fewer; `None` if there are no
    /// subjects.
    pub(crate) fn subject_of(&self, relation: RelationId, object: Entity, n: u64) -> Option<Entity> {
        let schema = relation.relation();
        let class = schema.subject;
        let order = &self.relations[relation.0 as usize];
        if schema.range == ObjectRange::CountryOfCity {
            let bases = self.cities.name_count();
            let countries = self.class_size(EntityClass::Country);
            let base = object.index + n % (bases - object.index).div_ceil(countries) * countries;
            let index = self.cities.entity(NameHolder { base: order.invert(base), rank: 0 })?;
            return Some(Entity { class, index });
        }
        let (_, first, size) = self.object_range(schema.range)?;
        let place = object.index.checked_sub(first).filter(|&place| place < size)?;
        let subjects = self.class_size(class).checked_sub(place).filter(|&left| left > 0)?.div_ceil(size);
        Some(Entity { class, index: order.invert(place + n % subjects * size) })
    }
}

/// Digits in groups of three, with commas.
fn group_digits(n: u64) -> String {
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
