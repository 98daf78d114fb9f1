//! docs/SEMANTICS.md, quoted fact by fact, each with the tests that hold the product to it.
//!
//! A fact that no other test asserts is asserted in `facts/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a panic"
)]

mod common;
mod facts;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

/// Each fact in the document's words, and below it the tests that assert it, as `file: function`.
const QUOTED: &str = r"
- [S1] `a.pcap`, `a.pcap.zst`, `a.pcap.partial` and `a.pcap.zst.partial` all appear as `a.pcap`.
    names.rs: only_the_four_endings_make_a_capture
- [S2] Where several forms exist, a final one goes before a partial one, and among those a raw one before a compressed one.
    names.rs: of_several_forms_final_goes_before_partial_and_raw_before_compressed
- [S3] A capture appears once, however many forms of it exist.
    names.rs: of_several_forms_final_goes_before_partial_and_raw_before_compressed
- [S4] Names are bytes: those that are not UTF-8 are shown and opened unchanged.
    names.rs: names_are_bytes_and_go_round_unchanged
- [S5] `a.PCAP`, `a.pcap.zst.zst`, `a.pcap.partial.zst` and `a.pcap.gz` are no captures and are not shown.
    names.rs: only_the_four_endings_make_a_capture
- [S6] With `-o all` other regular files are shown too, byte for byte under their own names; the physical names of captures are not.
    names.rs: all_shows_other_regular_files_byte_for_byte
    facts/names.rs: with_all_a_physical_name_is_not_found
- [S7] With `-o partial_suffix=.tmp` a file `a.pcap.zst.tmp` is a partial capture, and `a.pcap.partial` is none.
    facts/names.rs: another_partial_suffix_takes_the_place_of_the_usual_one
- [S8] A FIFO, socket or device with a capture's name is not shown, and looking it up says ENOENT without blocking.
    names.rs: what_is_no_regular_file_never_blocks_and_is_no_capture
    facts/names.rs: a_fifo_socket_or_device_is_not_shown
- [S9] A symbolic link is followed while its target stays inside SOURCE; one that leaves SOURCE, leads nowhere or runs in a circle is ENOENT, and so is one with an absolute target.
    names.rs: links_are_followed_inside_the_source_and_nowhere_else
- [S10] A folder whose name ends in `.pcap` is shown as a folder; a capture of the same logical name hides it.
    facts/names.rs: a_capture_hides_a_folder_of_its_logical_name
- [S11] A mount point that is SOURCE, lies in it or contains it is refused with exit code 1, and the message says which of these it is.
    facts/names.rs: a_mount_point_on_the_source_is_refused_and_called_so
- [S12] A capture keeps its inode number through the rename from partial to final name.
    facts/identity.rs: a_number_stays_through_the_rename
- [S13] A capture keeps its inode number when it is stored raw instead of compressed, or the other way round.
    facts/identity.rs: a_number_stays_when_the_form_changes
- [S14] A capture whose first record was there when it was first looked up has the same inode number after an unmount and a new mount.
    facts/identity.rs: a_number_is_the_same_in_the_next_mount
- [S15] When a file with another capture takes over a name, the name gets another inode number, and a handle opened before goes on giving the old bytes, though the old file is unlinked.
    facts/identity.rs: another_capture_gets_another_number_and_old_handles_keep_theirs
- [S16] A provisional id is promoted in place: the inode number does not change when the first record arrives.
    facts/identity.rs: a_number_stays_when_the_first_record_arrives
    written_over.rs: a_number_from_before_the_first_record_stays_though_the_kernel_forgets_the_inode
- [S17] Inode numbers of captures lie from 2^62 on, those of folders from 2^61 to 2^62; the root is 1.
    facts/identity.rs: numbers_lie_in_the_range_of_their_kind
- [S18] `st_size` of a capture is its source frontier: for a sound capture the length of the source as far as whole frames, or whole records, are on disk.
    facts/attributes.rs: the_size_is_what_is_whole_on_disk
- [S19] The mode is the physical file's without write bits; owner, group and times are the physical file's, to the nanosecond.
    attributes.rs: times_owner_blocks_and_mode_are_the_physical_files
    facts/attributes.rs: the_rest_is_the_physical_files_without_write_bits
- [S20] `-o umask=027` gives files mode 0440 and folders 0550; `-o uid=` and `-o gid=` replace owner and group.
    facts/attributes.rs: the_options_for_rights_replace_them
- [S21] `st_blocks` is what the physical file takes on disk, and never 0 when the size is not.
    facts/attributes.rs: the_rest_is_the_physical_files_without_write_bits
    facts/attributes.rs: a_file_of_holes_has_a_block
- [S22] `st_blksize` is 262144.
    facts/attributes.rs: the_rest_is_the_physical_files_without_write_bits
- [S23] A folder has link count 1 and size 0, and its times follow the source folder's; the kernel may keep them for two of its ticks (8 ms), except for a `statx` with AT_STATX_FORCE_SYNC.
    facts/attributes.rs: a_folder_has_size_0_and_the_source_folders_times
- [S24] `statfs` gives the numbers of the source's file system, with a name length of 255.
    attributes.rs: the_file_systems_numbers_are_the_sources
- [S57] Of a capture that grows, mtime and ctime are the physical file's at the size that is told: they move with every visible growth as far as the clock of the source's file system does, and never go back.
    growing.rs: times_move_with_every_visible_growth_and_never_go_back
    attributes.rs: a_growing_captures_time_moves_with_each_visible_growth
- [S25] Of a compressed capture a read gives bytes of frames that were decoded whole and whose length and checksum were found right, and nothing else.
    bad_tail.rs: no_touched_byte_ever_reads_as_another
    damage.rs: random_damage_never_shows_a_wrong_byte
- [S26] A read at or behind the end gives 0 bytes; one across the end gives what there is.
    copies.rs: reads_round_the_end_are_short_and_no_error
- [S27] `lseek` with SEEK_DATA gives the offset itself, with SEEK_HOLE the size, and ENXIO at or behind the end.
    copies.rs: seek_data_and_seek_hole_see_one_run_of_data
- [S28] A damaged frame's range fails with EIO each time it is read, and frames before and behind it stay readable.
    facts/damage.rs: a_frame_that_does_not_decode_fails_alone_and_each_time
- [S29] A read handle opened once a fault is known gives every good byte before it, then EIO.
    facts/damage.rs: a_frame_that_does_not_decode_fails_alone_and_each_time
- [S30] A page-cached handle that is the first to meet a bad frame fails at the fault or up to one page before it, never behind it.
    facts/damage.rs: a_frame_that_does_not_decode_fails_alone_and_each_time
- [S31] After a walk fault the unmapped rest of the physical file counts in the size, and every read of it is EIO: no reader takes the good part for the whole.
    facts/damage.rs: behind_a_walk_fault_every_read_fails
- [S32] A refused capture is listed with size 0; opening it fails with EOPNOTSUPP for another format or version, and with EIO for a broken header frame.
    facts/damage.rs: a_refused_capture_is_listed_and_not_opened
- [S33] A torn end is no error: the size ends before it, and so do the reads.
    bad_tail.rs: every_cut_of_a_final_capture_ends_at_a_whole_frame
    bad_tail.rs: every_cut_of_a_partial_capture_ends_at_a_whole_frame
- [S34] Zero bytes at a frame boundary are a torn end in a partial file and damage in a final one.
    facts/damage.rs: zeros_at_a_boundary_are_torn_in_a_partial_file_and_damage_in_a_final_one
- [S35] A final raw capture is passed through byte for byte, whatever it holds.
    facts/damage.rs: a_final_raw_capture_is_passed_through_and_a_partial_one_ends_at_a_record
- [S36] A partial raw capture ends at its last whole record; half a record and preallocated zeros behind it do not count.
    facts/damage.rs: a_final_raw_capture_is_passed_through_and_a_partial_one_ends_at_a_record
    bad_tail.rs: every_cut_of_a_raw_partial_capture_ends_at_a_whole_record
- [S61] A final raw capture that nobody has written to for 10 seconds is read by the kernel itself where it may be, with mmap, splice and sendfile too; every byte is the same as without.
    passed/bytes.rs: a_final_raw_file_is_passed_whatever_it_holds
    passed/bytes.rs: every_way_to_read_a_passed_file_gives_its_bytes
    passed/bytes.rs: what_a_writer_may_be_at_is_not_passed
- [S62] Handles that are passed and handles that are not may be opened in any order, through renames and changes of form: each gives its capture's bytes.
    passed/order.rs: a_direct_handle_keeps_those_after_it_direct_until_it_is_closed
    passed/order.rs: beside_a_passed_handle_one_that_may_not_be_passed_is_answered_here
    passed/order.rs: a_partial_file_that_is_open_through_its_rename_keeps_its_handles_direct
    passed/order.rs: a_capture_changes_its_form_under_handles_of_both_kinds
- [S63] A passed handle reads the file at the length it has at that moment, whether it has grown or was cut, and nobody needs to ask for the size.
    passed/change.rs: what_is_appended_after_the_open_is_seen_by_the_next_read
    passed/change.rs: a_file_that_is_cut_ends_where_it_ends
- [S64] A passed handle goes on giving the file that it was opened on when that is removed or replaced, and the file's space is free once its last handle is closed.
    passed/change.rs: a_removed_or_replaced_file_is_read_to_its_end_and_the_new_one_is_passed
    passed/end.rs: a_removed_files_space_is_free_once_its_last_handle_is_closed
- [S65] Where another capture is written over the file in place, the name has another inode as ever, but a handle that was passed gives what the file holds now; with `no_passthrough` it gives ESTALE.
    passed/change.rs: a_passed_handle_gives_what_its_file_holds_also_when_it_is_written_over
- [S37] A look-up, a `stat` or `fstat` and a read that reaches the end walk what has come to a partial or draining file: whole frames that are on disk at that moment count, with no timer between.
    facts/growth.rs: each_kind_of_look_walks_what_has_come
- [S38] The next read of a handle that is open on a growing capture sees them too.
    facts/growth.rs: each_kind_of_look_walks_what_has_come
- [S39] The size of a compressed capture that grows always ends at a frame, so tools never find a packet cut short at its end.
    facts/growth.rs: the_size_that_grows_always_ends_at_a_frame
- [S40] `tail -f` and `tail -F` follow a growing capture, and go on through its rename.
    facts/growth.rs: tail_follows_a_capture_and_its_rename
- [S58] A frame that is appended costs one decode, and no reader is made to read again what it had: an append drops nothing that the daemon keeps.
    growing.rs: an_append_costs_one_decode_and_nobody_reads_again_what_was_read
- [S59] A name that was just looked up in vain is there once its file is, and one whose file was removed is ENOENT at once.
    changes.rs: a_name_that_was_just_missing_is_there_once_it_is_created_and_gone_once_it_is_removed
- [S60] A handle that is open on a capture whose file is removed, in the middle of a read too, gives the capture to its end, also when another capture has taken the name.
    changes.rs: a_capture_removed_while_half_read_is_read_to_its_end_and_another_takes_its_name
- [S51] When a partial file gets shorter, the size that was shown stays; bytes that were cut off give EIO until they are there again, and then the same bytes as before.
    facts/restart.rs: bytes_that_were_cut_off_fail_until_they_are_there_again
    restart.rs: a_writer_that_cut_back_and_framed_anew_shows_the_same_capture
- [S52] Before a partial file is called damaged for a frame that does not decode, the walk goes over that frame once more; a partial file that is refused, or damaged by a walk fault, is served again once its writer has mended it.
    facts/restart.rs: frames_that_were_framed_anew_are_walked_again_and_not_damage
    facts/restart.rs: a_mended_partial_file_is_served_again
- [S53] When another capture is written into the same partial file, the name gets a new inode as soon as that shows, and handles of the old one give old bytes or EIO, never the new capture's.
    facts/restart.rs: another_capture_in_the_same_partial_file_gets_a_number_of_its_own
- [S54] A handle that was open on a compressed capture whose file is written over in place gives ESTALE or EIO where it has to go to the disk; a new open gives the new content.
    facts/restart.rs: a_file_written_over_in_place_fails_in_old_handles_and_is_new_in_others
- [S55] No byte that a map gives of a capture, within the size that was told, is ever wrong, also while it grows.
    race.rs: maps_and_splices_of_a_growing_capture_disturb_no_reader
    growing.rs: the_last_page_read_again_after_each_append_has_no_zero_that_the_source_lacks
    copies.rs: memory_maps_private_and_shared_hold_all_bytes
- [S56] A map that is touched behind the last page that the kernel knows of raises SIGBUS, and EFAULT where a system call touches it, until somebody asks for the file's size (stat, fstat).
    growing.rs: a_map_touched_behind_the_size_the_kernel_knows_is_an_error_until_somebody_asks
    growing.rs: the_last_page_read_again_after_each_append_has_no_zero_that_the_source_lacks
- [S41] `listxattr` is empty for every file and folder; one in `user.` that does not exist is ENODATA, and any other EOPNOTSUPP: there are no labels, access lists or capabilities.
    copies.rs: attributes_are_answered_by_name_and_not_listed
    facts/attributes.rs: a_folder_has_no_attribute_by_name
- [S42] `user.pcapzst.error` names frame, physical offset, and what was wanted and got.
    facts/damage.rs: a_frame_that_does_not_decode_fails_alone_and_each_time
    facts/damage.rs: behind_a_walk_fault_every_read_fails
- [S100] With `allow_other` a capture that a user may not read by mode, owner and group is not opened by that user, and its attributes by name are not told, whoever else reads it; its size and times show where its folder may be searched, as in SOURCE.
    right/mode.rs: a_capture_of_roots_own_is_read_by_nobody_else_before_or_after_root_read_it
    right/mode.rs: a_groups_capture_is_read_by_its_group_and_by_no_other
    right/mode.rs: what_is_in_a_closed_folder_is_not_found_by_name
- [S101] Rights that change in SOURCE hold for every open that begins afterwards, also for a descriptor that is opened again (`/proc/self/fd`); handles that are open go on.
    right/mode.rs: a_capture_that_becomes_private_is_opened_by_nobody_else_from_then_on
- [S102] With `allow_other` a symbolic link of root or of the daemon's user is followed, and another user's only where it leads to what is that user's too; else it is ENOENT and not listed.
    right/link.rs: anothers_link_shows_no_one_what_a_closed_folder_holds
    right/link.rs: a_folder_that_another_swaps_for_a_link_to_a_closed_one_shows_nothing_of_it
- [S103] No look-up and no open leaves SOURCE, whatever is swapped for a link meanwhile.
    right/link.rs: a_folder_that_is_swapped_for_a_link_out_of_the_source_leads_nowhere
    right/link.rs: a_path_with_many_links_ends_where_the_kernel_would_end_it
- [S104] A mount by an ordinary user goes through fusermount3 and shows what that user may read, whoever asks; what that user may not read is listed, and looking at it is EACCES.
    right/user_mount.rs: a_users_mount_is_for_that_user_and_read_with_that_users_rights
    right/user_mount.rs: a_users_mount_for_all_shows_no_more_than_that_user_may_read
    right/user_mount.rs: a_link_to_where_the_mounting_user_may_not_go_is_listed_and_looking_at_it_is_denied
- [S105] Without `allow_other` or `allow_root` only the mounting user passes, and root is another user; `allow_root` answers that user and root.
    right/user_mount.rs: a_users_mount_is_for_that_user_and_read_with_that_users_rights
    right/user_mount.rs: allow_root_lets_root_in_and_nobody_else
- [S106] tcpdump as root becomes the user `tcpdump` once its first file is open: in a mount for root alone a second one (`-V`) fails with EACCES; `-Z root` reads all, and so does a mount with `allow_other` where the files may be read by all.
    right/tcpdump.rs: roots_tcpdump_reads_a_second_file_with_its_user_name_kept_or_in_a_mount_for_all
- [S107] The daemon, the commands and the C library's readers open what is in SOURCE for reading only, the daemon always beneath SOURCE's own descriptor, and nothing there is made, renamed or changed; SOURCE may be mounted read-only.
    untouched/asked.rs: a_daemon_only_reads_its_source_whatever_is_asked_of_it
    untouched/asked.rs: inspect_verify_cat_and_a_pack_to_elsewhere_only_read
    untouched/asked.rs: the_c_librarys_readers_only_read
    untouched/read_only.rs: a_source_that_is_mounted_read_only_is_served_checked_and_packed_from
- [S108] In messages, log lines and text for people, control characters of a name are escapes (`\n`, `\u{1b}`), so that each message is one line; JSON has its own escapes.
    trap/names.rs: control_characters_of_a_name_are_printed_as_escapes_and_stay_on_their_line
- [S109] With `allow_other` what the kernel was told of a folder, and a descriptor of it, are good for that folder alone: while its path leads to another one they give ESTALE, and a path that is walked meets the other one's rights.
    right/folder.rs: a_folder_in_the_place_of_another_is_not_opened_by_that_ones_rights
    right/folder.rs: who_swaps_an_open_folder_and_a_closed_one_all_the_time_reads_nothing_in_the_closed_one
- [S43] Whatever would change a file, a folder, a mode, a time or an attribute fails with EROFS, and SOURCE stays as it was.
    read_only.rs: every_write_is_refused_as_read_only
    read_only.rs: writing_tools_say_read_only
- [S44] A listing names each capture that stays exactly once, however many others come and go meanwhile.
    readdir.rs: what_stays_is_listed_exactly_once_while_others_come_and_go
- [S45] A listing is fixed when a folder handle is first read and made anew when it is rewound; an offset it gave stays good as long as the handle.
    facts/names.rs: a_listing_is_fixed_until_it_is_rewound
    readdir.rs: a_rewound_listing_shows_what_came_meanwhile
    readdir.rs: a_listing_goes_on_from_any_position_it_gave
- [S46] SIGTERM, SIGINT and SIGHUP unmount, and the program ends with 0.
    mount_life.rs: a_signal_unmounts_and_is_a_good_end
- [S47] When a file is still open at that moment, no path leads into the mount any more, the open file is served to its last close, and then the program ends.
    mount_life.rs: a_signal_with_an_open_file_lets_it_be_read_to_the_end
- [S48] What else is mounted on the same path afterwards is left alone.
    mount_life.rs: another_mount_on_the_path_survives_the_programs_end
    mount_life.rs: a_signal_after_an_external_unmount_leaves_another_mount_alone
- [S109] A signal to a mount that another one hides unmounts neither: the log says so, and the mount goes on.
    mount_life.rs: a_signal_to_a_mount_that_another_one_hides_is_told_and_the_mount_goes_on
- [S110] A mount that was moved (`mount --move`) is unmounted where it is by then.
    mount_life.rs: a_mount_that_was_moved_is_unmounted_where_it_is_now
- [S66] The program of a mount in the background has a session of its own, no terminal, `/` as its folder and /dev/null as its standard streams before the command returns: what becomes of the caller's terminal, session or pipes does not reach it.
    mount_terminal.rs: a_terminal_that_is_gone_at_once_leaves_the_mount
    mount_terminal.rs: a_group_that_gets_sighup_or_sigint_right_behind_the_command_leaves_the_mount
    mount_life.rs: a_command_substitution_round_a_background_mount_returns
- [S67] When the caller is interrupted or killed before the mount answers, there is no mount and no program.
    mount_terminal.rs: an_interrupt_while_the_caller_waits_leaves_no_mount_and_no_program
    mount_terminal.rs: a_caller_that_was_killed_while_it_waited_leaves_no_mount_behind
- [S68] A mount in the foreground goes on at a SIGHUP or SIGINT that it was started to ignore (`nohup`, a script's `&`); one in the background never does.
    mount_terminal.rs: with_nohup_a_hangup_leaves_a_mount_in_the_foreground
    mount_terminal.rs: any_of_the_three_signals_ends_a_mount_in_the_background_whatever_its_caller_ignored
- [S69] So it is with a program that stands in the mount, and with a bind mount of it, which is served until that is unmounted, too.
    mount_terminal.rs: whoever_stands_in_the_mount_does_not_hold_it_there
    mount_dead.rs: a_bind_mount_is_served_after_the_mounts_end_and_dead_after_a_kill
- [S70] `mount` on a point where a dead pcapzst mount is takes that away first, with those under it that are dead as well, and says so; a bind mount of it elsewhere stays, and is no hindrance.
    mount_dead.rs: readers_of_a_killed_mount_get_an_error_and_the_next_mount_takes_its_place
    mount_dead.rs: all_dead_mounts_on_one_point_give_way_to_the_next
    mount_dead.rs: a_bind_mount_of_a_dead_mount_does_not_keep_the_point_dead
- [S111] A FUSE mount that gives no answer for five seconds is left there; the message names the command.
    mount_life.rs: a_mount_that_does_not_answer_is_told_and_not_waited_for
- [S112] A service manager that does not read is waited for no longer than five seconds a message.
    mount_systemd.rs: a_manager_that_never_reads_does_not_hold_up_the_end
- [S71] A dead mount of another type, one that the caller may not unmount, and a pcapzst mount that the caller may not enter is left there; the message names the command that takes it away.
    mount_dead.rs: a_dead_mount_of_another_file_system_stays_and_the_way_out_is_told
    mount_dead.rs: somebody_elses_dead_mount_stays_and_the_command_for_its_owner_is_told
    mount_dead.rs: somebody_elses_mount_that_one_may_not_enter_stays_and_the_way_out_is_told
- [S72] The type may be `pcapzst` or `fuse.pcapzst`; the mount table shows `fuse.pcapzst`. Neither PATH nor HOME is needed.
    mount_helper.rs: mount_finds_the_program_as_mount_pcapzst
    mount_helper.rs: mount_finds_the_program_for_the_type_that_the_mount_table_shows
    mount_helper.rs: neither_path_nor_home_is_needed
- [S73] An automounter that starts the command in its own process group, as systemd does, gets its mount, and whoever looked at the point meanwhile sees it.
    mount_helper.rs: an_automounter_gets_its_mount_and_whoever_looked_sees_it
- [S74] Words of fstab(5), mount(8) and systemd are accepted and ignored. A comma within double quotes parts no options. SELinux labels (`context=` and its like) go to the kernel where there is SELinux, and are left out where there is none.
    mount_helper.rs: mount_finds_the_program_as_mount_pcapzst
    mount_helper.rs: labels_are_left_out_where_there_is_no_selinux
    mount_options.rs: the_words_of_fstab_are_accepted
- [S75] With NOTIFY_SOCKET set, a mount in the foreground sends `READY=1` once it answers, and `STOPPING=1` once its end has begun.
    mount_systemd.rs: the_services_command_serves_what_is_roots_is_killed_comes_back_and_ends_well
    mount_systemd.rs: an_unmount_from_outside_is_told_to_the_manager_and_no_failure
- [S76] Until the mount answers, all of it goes to stderr. From then on it goes to stderr in the foreground, and to syslog (facility daemon, tag `pcapzst[PID]`, the level as priority) in the background.
    mount_log.rs: a_background_mount_logs_to_syslog
    mount_log.rs: in_the_foreground_the_log_is_on_stderr_or_in_the_file
    mount_dead.rs: readers_of_a_killed_mount_get_an_error_and_the_next_mount_takes_its_place
- [S77] With `--log-file FILE`, or `-o log_file=FILE`, it goes to that file instead: appended, each line with time (UTC) and level. The file is made with mode 0640, or less by the umask.
    mount_log.rs: a_log_file_holds_a_mounts_life_in_the_background
    mount_log.rs: a_log_file_is_appended_to_and_may_be_cut
    mount_log.rs: a_relative_log_file_is_where_the_command_was_given
- [S78] A log file that lies in SOURCE or in the mount point, is a symbolic link, or cannot be opened, ends the mount with exit code 1, and nothing is made there.
    mount_log.rs: a_log_file_that_cannot_be_ends_the_mount_and_nothing_is_made
- [S79] A line is one line: control characters, as names may hold them, are written as escapes.
    mount_log.rs: a_captures_name_forges_no_line
- [S80] A thousand lines may come at once, and then one in ten seconds; how many were left out is told. A line about the mount's start or end always comes.
    mount_log.rs: thousands_of_bad_captures_do_not_fill_the_disk
- [S81] A logger that is slow or does not read holds up no request, nor does a terminal or pipe on stderr once the mount answers: lines that are not taken are lost.
    mount_log.rs: a_logger_that_does_not_read_holds_up_nobody
    mount_log.rs: stderr_that_nobody_reads_holds_up_nobody
- [S49] Of several files the worst exit code wins, in the order 2, 1, 6, 4, 3, 5, 0.
    facts/command.rs: of_several_files_the_worst_exit_code_wins
- [S50] `zstd -dc` of what `pack` made of a whole capture is that capture, byte for byte.
    pack.rs: a_capture_is_packed_beside_its_input
    pack.rs: old_versions_and_odd_but_allowed_records_are_packed_as_they_are
";

/// A fact: the anchor without its brackets, and the sentence behind it.
type Fact = (String, String);

/// The list items that begin with an anchor, in order. An item may go on in lines that are indented.
fn facts_of(document: &str) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let mut is_open = false;
    for line in document.lines() {
        let anchored = line
            .strip_prefix("- [S")
            .and_then(|line| line.split_once("] "));
        if let Some((number, sentence)) = anchored {
            facts.push((format!("S{number}"), sentence.to_owned()));
        } else if let (true, Some(more), Some(last)) =
            (is_open, line.strip_prefix("  "), facts.last_mut())
        {
            last.1.push(' ');
            last.1.push_str(more.trim_start());
        }
        is_open = anchored.is_some() || (is_open && line.starts_with("  "));
    }
    facts
}

/// The quoted facts, each with its tests.
fn quoted() -> Vec<(Fact, Vec<(&'static str, &'static str)>)> {
    let mut quoted: Vec<(Fact, Vec<_>)> = Vec::new();
    for line in QUOTED.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("    ") {
            Some(test) => {
                let (_, tests) = quoted.last_mut().unwrap();
                tests.push(test.split_once(": ").unwrap());
            }
            None => quoted.push((facts_of(line).remove(0), Vec::new())),
        }
    }
    quoted
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn every_fact_of_the_document_is_quoted_word_for_word() {
    let document = fs::read_to_string(folder("docs").join("SEMANTICS.md")).unwrap();
    let written = facts_of(&document);
    let anchors: HashSet<_> = written.iter().map(|(anchor, _)| anchor).collect();
    assert_eq!(anchors.len(), written.len(), "an anchor stands there twice");
    let quoted: Vec<_> = quoted().into_iter().map(|(fact, _)| fact).collect();
    let of = |facts: &[Fact]| facts.iter().cloned().collect::<BTreeMap<_, _>>();
    assert_eq!(of(&quoted).len(), quoted.len(), "an anchor is quoted twice");
    for fact in &written {
        assert!(
            quoted.contains(fact),
            "not quoted, or in other words: {fact:?}"
        );
    }
    for fact in &quoted {
        assert!(
            written.contains(fact),
            "not in the document, or in other words: {fact:?}"
        );
    }
}

#[test]
fn every_fact_names_tests_that_exist() {
    for ((anchor, _), tests) in quoted() {
        assert!(!tests.is_empty(), "{anchor}: no test");
        for (file, function) in tests {
            let text = fs::read_to_string(folder("tests").join(file))
                .unwrap_or_else(|error| panic!("{anchor}: {file}: {error}"));
            let is_there = text.contains(&format!("#[test]\nfn {function}() {{"));
            assert!(is_there, "{anchor}: {file} has no test {function}");
        }
    }
}

#[test]
fn a_fact_may_go_on_in_the_next_line() {
    let document = "- [S1] One\n  two.\n- [S2] Three.\n\n  No fact.\n";
    let wanted = [("S1", "One two."), ("S2", "Three.")];
    assert_eq!(
        facts_of(document),
        wanted.map(|(anchor, sentence)| (anchor.to_owned(), sentence.to_owned()))
    );
}

/// Words of four parts and more that look like a function's name.
fn functions_named(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| {
        !(letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    })
    .filter(|word| word.split('_').filter(|part| !part.is_empty()).count() >= 4)
    // Shortened: the sentence goes on where the name does not.
    .filter(|word| !word.ends_with('_'))
}

fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn each_trap_has_a_row_and_each_test_that_is_named_there_and_among_faults_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    sources(&root.join("src"), &mut code);
    sources(&root.join("tests"), &mut code);
    let semantics = fs::read_to_string(root.join("docs/SEMANTICS.md")).unwrap();
    let (_, traps) = semantics.split_once("\n## Traps\n").unwrap();
    for number in 1..=55 {
        let start = format!("\n| {number} | ");
        assert_eq!(traps.matches(&start).count(), 1, "rows of trap {number}");
    }
    let faults = fs::read_to_string(root.join("docs/RELIABILITY.md")).unwrap();
    let mut count = 0;
    for name in functions_named(traps).chain(functions_named(&faults)) {
        assert!(code.contains(&format!("fn {name}(")), "no test {name}");
        count += 1;
    }
    assert!(count > 100, "only {count} names were found");
}
