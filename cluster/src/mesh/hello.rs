//! The handshake of two processes when a socket opens, in bytes.
//!
//! ```text
//! connector                                              acceptor
//!   hello: magic version kind from to … challenge ->
//!                                                     <- reply: magic, go on | refusal; challenge
//!   proof ->
//!                                                     <- reply: magic, accepted | refusal; proof of this reply
//!   (heartbeat only, once all are there)              <- welcome: nonce, length, bytes | missing processes
//! ```
//!
//! The magic and the version come first in every version, so that a process of another version is refused with this
//! reason and not by a timeout. All numbers are little-endian.

use std::io::{self, Read, Write};

use super::MeshRefusal;
use super::secret::{HandshakeChallenge, PROOF, SessionKey};

/// First bytes of a hello and of a reply.
const MAGIC: [u8; 8] = *b"hopeval\n";
/// Version of everything in this file, of the heartbeat frames and of what the dataflow sends.
pub(super) const VERSION: u16 = 4;
/// Length of a hello in bytes.
pub(super) const HELLO: usize = 8 + 2 + 1 + 1 + 4 * 4 + PROOF + 16;
/// Length of a reply in bytes.
const REPLY: usize = 8 + 1 + 4 + 4;
/// Longest accepted welcome, in bytes.
const WELCOME_LIMIT: u32 = 16 << 20;

/// The use of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketKind {
    /// Heartbeats, between process 0 and every other.
    Heartbeat,
    /// Timely's messages, between every two processes.
    Data,
}

/// Random number of one forming of a mesh, unknown to processes of earlier formings.
pub(super) type FormingNonce = [u8; 16];

/// The first message of a connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) kind: SocketKind,
    /// The sender.
    pub(super) from: u32,
    /// The process expected by the sender at this address.
    pub(super) to: u32,
    /// Number of processes in the sender's settings.
    pub(super) processes: u32,
    /// Workers in each process in the sender's settings.
    pub(super) workers: u32,
    /// Random number of the sender for this connection.
    pub(super) challenge: HandshakeChallenge,
    /// Nonce of this forming; zero in a heartbeat hello, because its sender learns the nonce from the welcome.
    pub(super) nonce: FormingNonce,
}

/// The meaning of the first bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedHello {
    /// A whole hello.
    Hello(Hello),
    /// A process of hopeval to be refused.
    Refuse(MeshRefusal),
    /// Not hopeval.
    Stranger,
    /// Not enough bytes yet.
    More,
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO] {
        let mut out = [0u8; HELLO];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&[match self.kind {
            SocketKind::Heartbeat => 0,
            SocketKind::Data => 1,
        }]);
        put(&[0]);
        for n in [self.from, self.to, self.processes, self.workers] {
            put(&n.to_le_bytes());
        }
        put(&self.challenge);
        put(&self.nonce);
        out
    }

    /// Parses the bytes received so far. Decides about a stranger and about the version as early as possible.
    pub(super) fn parse(bytes: &[u8]) -> ParsedHello {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return ParsedHello::Stranger;
        }
        if bytes.len() < 10 {
            return ParsedHello::More;
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return ParsedHello::Refuse(MeshRefusal::Version { ours: VERSION.into(), theirs: version.into() });
        }
        let Some(bytes) = bytes.get(..HELLO) else { return ParsedHello::More };
        let kind = match bytes[10] {
            0 => SocketKind::Heartbeat,
            1 => SocketKind::Data,
            _ => return ParsedHello::Stranger,
        };
        let mut challenge = [0u8; PROOF];
        challenge.copy_from_slice(&bytes[28..60]);
        let mut nonce = [0u8; 16];
        nonce.copy_from_slice(&bytes[60..76]);
        ParsedHello::Hello(Self {
            kind,
            from: read_u32(bytes, 12),
            to: read_u32(bytes, 16),
            processes: read_u32(bytes, 20),
            workers: read_u32(bytes, 24),
            challenge,
            nonce,
        })
    }
}

/// Answers a hello: the connector may go on, with a proof for this challenge.
pub(super) fn write_challenge(mut to: impl Write, challenge: &HandshakeChallenge) -> io::Result<()> {
    let mut out = encode_reply(None).to_vec();
    out.extend_from_slice(challenge);
    to.write_all(&out)
}

/// Reads the answer to a hello: a challenge, or a refusal.
///
/// # Errors
/// The socket's, and `InvalidData` if the answer is not hopeval's.
pub(super) fn read_challenge(mut from: impl Read) -> io::Result<Result<HandshakeChallenge, MeshRefusal>> {
    if let Err(refusal) = parse_reply(&read_array(&mut from)?)? {
        return Ok(Err(refusal));
    }
    read_array(&mut from).map(Ok)
}

/// Answers a proof. Without a session, which is before the challenge, the reply is a refusal that nothing proves.
pub(super) fn write_verdict(
    mut to: impl Write,
    refusal: Option<&MeshRefusal>,
    session: Option<&SessionKey>,
) -> io::Result<()> {
    let mut out = encode_reply(refusal).to_vec();
    if let Some(session) = session {
        out.extend_from_slice(session.acceptor_proof(&encode_reply(refusal)).as_bytes());
    }
    to.write_all(&out)
}

/// Reads the answer to a proof. Only the refusal of the token is believed without a proof: an acceptor with another
/// token has none.
///
/// # Errors
/// The socket's, and `InvalidData` if the answer is not of a process with the mesh's token.
pub(super) fn read_verdict(mut from: impl Read, session: &SessionKey) -> io::Result<Result<(), MeshRefusal>> {
    let bytes = read_array(&mut from)?;
    let proof = read_array::<PROOF>(&mut from)?;
    let reply = parse_reply(&bytes)?;
    if reply != Err(MeshRefusal::Token) && session.acceptor_proof(&bytes) != proof {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "something without the mesh's token answers there"));
    }
    Ok(reply)
}

fn encode_reply(refusal: Option<&MeshRefusal>) -> [u8; REPLY] {
    let (code, a, b) = refusal.map_or((0, 0, 0), MeshRefusal::encode);
    let mut out = [0u8; REPLY];
    out[..8].copy_from_slice(&MAGIC);
    out[8] = code;
    out[9..13].copy_from_slice(&a.to_le_bytes());
    out[13..].copy_from_slice(&b.to_le_bytes());
    out
}

fn parse_reply(bytes: &[u8; REPLY]) -> io::Result<Result<(), MeshRefusal>> {
    if bytes[..8] != MAGIC {
        return Err(not_hopeval());
    }
    match bytes[8] {
        0 => Ok(Ok(())),
        code => MeshRefusal::decode(code, read_u32(bytes, 9), read_u32(bytes, 13)).map(Err).ok_or_else(not_hopeval),
    }
}

fn read_array<const N: usize>(mut from: impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The final message of process 0 to each other process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FinalMessage {
    /// All are there.
    Welcome { nonce: FormingNonce, bytes: Vec<u8> },
    /// These never came.
    Missing(Vec<u32>),
}

impl FinalMessage {
    pub(super) fn write(&self, mut to: impl Write) -> io::Result<()> {
        let (tag, nonce, body) = match self {
            Self::Welcome { nonce, bytes } => (1, *nonce, bytes.clone()),
            Self::Missing(processes) => (2, [0; 16], processes.iter().flat_map(|p| p.to_le_bytes()).collect()),
        };
        let length = u32::try_from(body.len()).ok().filter(|n| *n <= WELCOME_LIMIT);
        let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the welcome exceeds 16 MiB"))?;
        let mut out = vec![tag];
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&body);
        to.write_all(&out)
    }

    pub(super) fn read(mut from: impl Read) -> io::Result<Self> {
        let mut head = [0u8; 21];
        from.read_exact(&mut head)?;
        let length = read_u32(&head, 17);
        if length > WELCOME_LIMIT {
            return Err(not_hopeval());
        }
        let mut body = vec![0u8; length as usize];
        from.read_exact(&mut body)?;
        match head[0] {
            1 => {
                let mut nonce = [0u8; 16];
                nonce.copy_from_slice(&head[1..17]);
                Ok(Self::Welcome { nonce, bytes: body })
            }
            2 => Ok(Self::Missing(body.chunks_exact(4).map(|c| read_u32(c, 0)).collect())),
            _ => Err(not_hopeval()),
        }
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0u8; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

fn not_hopeval() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "something that is not hopeval answers there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::MeshSecret;

    fn hello() -> Hello {
        Hello { kind: SocketKind::Data, from: 3, to: 1, processes: 4, workers: 2, challenge: [7; 32], nonce: [9; 16] }
    }

    #[test]
    fn a_hello_survives_and_is_incomplete_before_its_last_byte() {
        let bytes = hello().encode();
        assert_eq!(Hello::parse(&bytes), ParsedHello::Hello(hello()));
        for n in 0..bytes.len() {
            assert_eq!(Hello::parse(&bytes[..n]), ParsedHello::More, "{n} bytes");
        }
    }

    #[test]
    fn strangers_and_other_versions_are_known_early() {
        assert_eq!(Hello::parse(b"GET / HT"), ParsedHello::Stranger);
        let mut bytes = hello().encode();
        bytes[8] = 200;
        assert_eq!(
            Hello::parse(&bytes[..10]),
            ParsedHello::Refuse(MeshRefusal::Version { ours: VERSION.into(), theirs: 200 })
        );
    }

    #[test]
    fn replies_and_words_survive() {
        let secret = MeshSecret::derive("token", &["a:1".to_owned()]);
        let session = secret.session_key(&hello().encode(), &[5; 32]);
        let other = secret.session_key(&hello().encode(), &[6; 32]);
        for refusal in [
            None,
            Some(MeshRefusal::Token),
            Some(MeshRefusal::Version { ours: 1, theirs: 2 }),
            Some(MeshRefusal::Processes { ours: 3, theirs: 2 }),
            Some(MeshRefusal::Workers { ours: 3, theirs: 2 }),
            Some(MeshRefusal::OutOfRange { process: 9, processes: 3 }),
            Some(MeshRefusal::Taken { process: 1 }),
            Some(MeshRefusal::Misaddressed { ours: 0, wanted: 1 }),
            Some(MeshRefusal::Generation),
        ] {
            let mut bytes = Vec::new();
            write_verdict(&mut bytes, refusal.as_ref(), Some(&session)).unwrap();
            assert_eq!(read_verdict(bytes.as_slice(), &session).unwrap().err(), refusal);
            let forged = read_verdict(bytes.as_slice(), &other);
            assert!(forged.is_err() || refusal == Some(MeshRefusal::Token), "{forged:?}");
        }
        for message in
            [FinalMessage::Welcome { nonce: [3; 16], bytes: b"run 7".to_vec() }, FinalMessage::Missing(vec![2, 5])]
        {
            let mut bytes = Vec::new();
            message.write(&mut bytes).unwrap();
            assert_eq!(FinalMessage::read(bytes.as_slice()).unwrap(), message);
        }
        let mut bytes = Vec::new();
        write_challenge(&mut bytes, &[4; 32]).unwrap();
        assert_eq!(read_challenge(bytes.as_slice()).unwrap(), Ok([4; 32]));
        assert!(read_challenge(b"HTTP/1.1 400 Bad Request".as_slice()).is_err());
    }
}
