//! The present places of segments: in their own objects, or, merged with others, in larger ones.
//!
//! A location names its segment by a number, and an offset in that segment. A merge moves all values of a segment by
//! one distance, so the number is all that has to be changed.
//!
//! ```text
//!   location (segment 7, offset 300) --> place 7: object "..._000003.seg", shift 4,096 --> byte 4,396 of that object
//! ```

use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The places of all segments of a reader.
#[derive(Debug, Default)]
pub(super) struct SegmentPlaces {
    /// By the segment's number: its object's number, and its shift there.
    places: Vec<(u32, u64)>,
    objects: Vec<PlacedObject>,
    numbers: FxHashMap<Arc<str>, u32>,
    /// Segments that this process merged before it gave them a number: object and shift.
    ahead: FxHashMap<String, (u32, u64)>,
    /// Objects that are gone without a successor.
    lost: FxHashSet<Arc<str>>,
}

/// An object that holds segments.
#[derive(Debug)]
struct PlacedObject {
    /// Empty once its segments have moved.
    name: Arc<str>,
    /// The numbers of the segments in it.
    segments: Vec<u32>,
    /// The object to which its segments have moved, and how far.
    successor: Option<(u32, u64)>,
    /// Whether its lineage was adopted.
    adopted: bool,
}

impl SegmentPlaces {
    /// Gives the segment `name` a number.
    pub(super) fn number_segment(&mut self, name: &str) -> u32 {
        let number = self.places.len() as u32;
        let mut place = match self.ahead.remove(name) {
            Some(place) => place,
            None => (self.number_object(name), 0),
        };
        while let Some((object, shift)) = self.objects[place.0 as usize].successor {
            place = (object, place.1 + shift);
        }
        self.places.push(place);
        self.objects[place.0 as usize].segments.push(number);
        number
    }

    /// The object of a segment, and the distance of the segment's records from their offsets.
    pub(super) fn place(&self, segment: u32) -> (u32, u64) {
        self.places[segment as usize]
    }

    /// An object's name.
    pub(super) fn object_name(&self, object: u32) -> Arc<str> {
        Arc::clone(&self.objects[object as usize].name)
    }

    /// Whether the object holds a segment, as far as is known.
    pub(super) fn has_records(&self, name: &str) -> bool {
        self.numbers.get(name).is_some_and(|&object| !self.objects[object as usize].segments.is_empty())
    }

    /// Whether [`SegmentPlaces::adopt_merged`] has had this object.
    pub(super) fn is_adopted(&self, name: &str) -> bool {
        self.numbers.get(name).is_some_and(|&object| self.objects[object as usize].adopted)
    }

    /// Notes that an object is gone and has no successor.
    pub(super) fn note_lost(&mut self, name: &Arc<str>) {
        self.lost.insert(Arc::clone(name));
    }

    /// Whether [`SegmentPlaces::note_lost`] has had this object.
    pub(super) fn is_lost(&self, name: &str) -> bool {
        self.lost.contains(name)
    }

    /// Moves the segments of replaced objects, each with its shift, into the merged segment `name`. True if there were
    /// any. With `expected`, replaced objects that have no number yet will have one.
    pub(super) fn adopt_merged(&mut self, name: &str, replaced: &[(String, u64)], expected: bool) -> bool {
        let merged = self.number_object(name);
        self.objects[merged as usize].adopted = true;
        let mut moved = Vec::new();
        for (name, shift) in replaced {
            let Some(object) = self.numbers.remove(name.as_str()) else {
                if expected {
                    self.ahead.insert(name.clone(), (merged, *shift));
                }
                continue;
            };
            let left = &mut self.objects[object as usize];
            (left.name, left.successor) = (Arc::from(""), Some((merged, *shift)));
            for segment in std::mem::take(&mut left.segments) {
                let place = &mut self.places[segment as usize];
                *place = (merged, place.1 + shift);
                moved.push(segment);
            }
        }
        let found = !moved.is_empty();
        self.objects[merged as usize].segments.append(&mut moved);
        found
    }

    fn number_object(&mut self, name: &str) -> u32 {
        if let Some(&object) = self.numbers.get(name) {
            return object;
        }
        let (object, name) = (self.objects.len() as u32, Arc::<str>::from(name));
        self.objects.push(PlacedObject {
            name: Arc::clone(&name),
            segments: Vec::new(),
            successor: None,
            adopted: false,
        });
        self.numbers.insert(name, object);
        object
    }
}
