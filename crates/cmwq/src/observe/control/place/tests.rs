//! What lies beside a socket.

use super::*;

#[test]
fn nothing_is_replaced_when_what_was_left_behind_is_taken_aside() {
    let directory = std::env::temp_dir().join(format!("cmwq-aside-{}", std::process::id()));
    // A run that failed, with the same number of its process, may have left it.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    let path = directory.join("s.sock");
    // Nobody listens there any more.
    drop(UnixListener::bind(&path).unwrap());
    let aside = path.with_extension(format!("stale-{}", std::process::id()));
    fs::write(&aside, "somebody's").unwrap();
    let error = take(&path).unwrap_err();
    let kept = fs::read(&aside).unwrap();
    fs::remove_file(&aside).unwrap();
    let taken = take(&path);
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!((error.kind(), &kept[..]), (io::ErrorKind::AddrInUse, &b"somebody's"[..]));
    fds::close(taken.unwrap().0);
}
