//! Pickles written by hand: harmless, refused and broken ones.

use super::*;

fn refused(bytes: &[u8]) -> PickleError {
    Pickle::read(bytes).expect_err("nothing that may be read")
}

#[test]
fn reads_data_of_every_protocol() {
    // pickletools.dis of pickle.dumps({"a": [1, -2, True, None, 1.5], "b": (b"x",)}, protocol) for 0, 2 and 4.
    let written: [&[u8]; 3] = [
        b"(dp0\nVa\np1\n(lp2\nI1\naI-2\naI01\naNaF1.5\nasVb\np3\n(c_codecs\nencode\n",
        b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xff\x88NG?\xf8\x00\x00\x00\x00\x00\x00eX\x01\x00\x00\x00bq\x03K\x07\x85q\x04u.",
        b"\x80\x04\x95\x2b\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xff\x88NG?\xf8\x00\x00\x00\x00\x00\x00e\x8c\x01b\x94C\x01x\x94\x85\x94u.",
    ];
    // Protocol 0 has no bytes: Python calls a codec, and codecs are not allowed.
    assert_eq!(refused(written[0]), PickleError::Global("_codecs.encode".to_owned()));
    for (bytes, second) in [(written[1], PickleValue::Int(7)), (written[2], PickleValue::Bytes(b"x".to_vec()))] {
        let pickle = Pickle::read(bytes).expect("a pickle");
        assert_eq!(pickle.length, bytes.len());
        let PickleValue::Dict(entries) = pickle.get(pickle.root) else { panic!("a dict") };
        let PickleValue::List(items) = pickle.get(entries[0].1) else { panic!("a list") };
        let items: Vec<&PickleValue> = items.iter().map(|&id| pickle.get(id)).collect();
        assert_eq!(
            items,
            [
                &PickleValue::Int(1),
                &PickleValue::Int(-2),
                &PickleValue::Bool(true),
                &PickleValue::None,
                &PickleValue::Float(1.5)
            ]
        );
        let PickleValue::Tuple(inner) = pickle.get(entries[1].1) else { panic!("a tuple") };
        assert_eq!(*pickle.get(inner[0]), second);
    }
}

#[test]
fn names_what_it_will_not_run() {
    let calls: [(&[u8], &str); 5] = [
        (b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.", "posix.system"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.", "builtins.eval"),
        (b"(S'ls'\nios\nsystem\n.", "os.system"),
        (b"\x80\x02ctorch.storage\n_load_from_bytes\n.", "torch.storage._load_from_bytes"),
        (b"\x80\x02ctorch\nload\n.", "torch.load"),
    ];
    for (bytes, name) in calls {
        assert_eq!(refused(bytes), PickleError::Global(name.to_owned()));
    }
}

#[test]
fn allowed_names_are_not_called_with_what_they_do_not_take() {
    // OrderedDict of a list of pairs would be data, but no state dict has one, so it is refused.
    assert!(matches!(refused(b"\x80\x02ccollections\nOrderedDict\n]\x85R."), PickleError::Format(_)));
    assert!(matches!(refused(b"\x80\x02ctorch\nFloatStorage\nK\x01\x85R."), PickleError::Format(_)));
    // An object's state is set on dicts only, and does not touch their items.
    assert!(matches!(refused(b"\x80\x02]}b."), PickleError::Format(_)));
    assert!(matches!(refused(b"\x80\x02ctorch\nFloatStorage\n)\x81."), PickleError::Format(_)));
}

#[test]
fn every_beginning_of_a_pickle_is_an_error() {
    let whole =
        b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xff\x88NG?\xf8\x00\x00\x00\x00\x00\x00eu.";
    assert!(Pickle::read(whole).is_ok());
    for length in 0..whole.len() {
        assert!(matches!(refused(&whole[..length]), PickleError::Format(_)), "{length} bytes");
    }
}

#[test]
fn every_changed_byte_is_read_or_refused_without_a_panic() {
    let whole = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01X\x01\x00\x00\x00wq\x02ctorch._utils\n_rebuild_tensor_v2\nq\x03((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89h\x00)RtRs.";
    let pickle = Pickle::read(whole).expect("a tensor");
    let PickleValue::Dict(entries) = pickle.get(pickle.root) else { panic!("a dict") };
    let storage = StorageReference { key: "0".into(), element: Some(StorageElement::F32), view: None };
    let tensor =
        TensorReference { storage, element: StorageElement::F32, offset: 0, shape: vec![2, 3], stride: vec![3, 1] };
    assert_eq!(*pickle.get(entries[0].1), PickleValue::Tensor(tensor));
    for at in 0..whole.len() {
        for byte in 0..=255 {
            let mut changed = whole.to_vec();
            changed[at] = byte;
            let _ = Pickle::read(&changed);
        }
    }
}

#[test]
fn depth_costs_no_stack() {
    let mut deep = b"\x80\x02)".to_vec();
    deep.extend(std::iter::repeat_n(b"\x85", 1_000_000).flatten());
    deep.push(b'.');
    assert_eq!(Pickle::read(&deep).expect("tuples in tuples").length, deep.len());
}

/// `torch.FloatStorage` under a key of this length, as a persistent id that is kept as memo 9.
fn storage_tuple(key: usize) -> Vec<u8> {
    let text = |text: &[u8]| [&b"X"[..], &(text.len() as u32).to_le_bytes(), text].concat();
    [&b"\x80\x02("[..], &text(b"storage"), b"ctorch\nFloatStorage\n", &text(&vec![b'k'; key]), &text(b"cpu")]
        .into_iter()
        .chain([&b"K\x01tq\x09"[..]])
        .flatten()
        .copied()
        .collect()
}

fn reason(bytes: &[u8]) -> String {
    match refused(bytes) {
        PickleError::Format(reason) => reason,
        PickleError::Global(global) => panic!("{global}"),
    }
}

#[test]
fn a_long_key_is_refused_before_it_is_copied() {
    // 3 bytes for each copy of a key of 1 MiB: 98 GiB of them in 1.3 MiB.
    let bomb = [storage_tuple(1 << 20), b"h\x09Q".repeat(100_000), b".".to_vec()].concat();
    assert!(reason(&bomb).contains("key has 1048576 bytes; at most 256"), "{}", reason(&bomb));
    let shared = [storage_tuple(200), b"h\x09Q".repeat(100_000), b".".to_vec()].concat();
    assert!(matches!(*Pickle::read(&shared).expect("small").get(0), PickleValue::Text(_)));
}

#[test]
fn many_small_values_are_refused_before_they_fill_the_memory() {
    let limit = format!("values of more than {MOST_MEMORY} bytes");
    let nones = [&b"\x80\x02"[..], &b"N".repeat(20 << 20), b"."].concat();
    assert!(reason(&nones).contains(&limit), "{}", reason(&nones));
    // Shapes of 64 sizes, copied by five bytes each.
    let sizes = [&b"\x80\x02ctorch\nSize\nq\x01("[..], &b"K\x01".repeat(64), b"t\x85q\x02"].concat();
    let copies = [&sizes[..], &b"h\x01h\x02R".repeat(2 << 20), b"."].concat();
    assert!(reason(&copies).contains(&limit), "{}", reason(&copies));
}

#[test]
fn a_text_longer_than_a_pickle_is_refused_before_it_is_copied() {
    let mut bytes = b"\x80\x04\x8e".to_vec();
    bytes.extend_from_slice(&(MOST_BYTES as u64).to_le_bytes());
    bytes.resize(bytes.len() + MOST_BYTES + 1, b'.');
    assert_eq!(reason(&bytes), TOO_LONG);
}
