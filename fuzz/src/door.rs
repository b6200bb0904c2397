//! Frames of the calls that a server executes for its user's command line.

#[path = "../../crates/cli/src/server_socket/frame.rs"]
mod frame;

/// Reads frames up to the first invalid one, and checks that encoding them gives the same bytes.
pub fn frames(data: &[u8]) {
    let (mut rest, mut again) = (data, Vec::new());
    while let Ok((kind, payload)) = frame::read(&mut rest) {
        assert!(payload.len() <= frame::LARGEST);
        assert!(frame::write(&mut again, kind, &payload).is_ok());
        assert_eq!(again, data[..data.len() - rest.len()]);
    }
}
