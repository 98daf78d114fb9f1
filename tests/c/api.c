/*
 * Calls every function of pcapzst.h, as documented there: with success, with NULL, misused, and failing.
 *
 *   api FOLDER
 *
 * Makes what it needs in FOLDER. Built and run by scripts/test-c.
 */
#include "support.h"

#include <string.h>

static void every_status_has_a_message_of_its_own(void) {
    int32_t first, second;
    for (first = PCAPZST_OK; first <= PCAPZST_E_INTERNAL; first++) {
        CHECK(pcapzst_status_message(first) != NULL && *pcapzst_status_message(first));
        /* One further is no status: "unknown" is distinct as well. */
        for (second = first + 1; second <= PCAPZST_E_INTERNAL + 1; second++)
            CHECK(strcmp(pcapzst_status_message(first), pcapzst_status_message(second)) != 0);
    }
}

static void a_number_that_is_no_status_has_a_message(void) {
    const int32_t numbers[] = {-1, PCAPZST_E_INTERNAL + 1, INT32_MAX, INT32_MIN};
    size_t i;
    for (i = 0; i < sizeof numbers / sizeof *numbers; i++)
        CHECK(pcapzst_status_message(numbers[i]) != NULL && *pcapzst_status_message(numbers[i]));
}

static void last_error_is_empty_before_a_call_failed(void) {
    CHECK(pcapzst_last_error() != NULL && *pcapzst_last_error() == 0);
    GIVES(PCAPZST_E_INVALID, pcapzst_get_info(NULL, NULL));
    CHECK(*pcapzst_last_error() != 0);
}

void test_versions_and_messages(void) {
    CHECK(pcapzst_abi_version() == PCAPZST_ABI_VERSION);
    CHECK(pcapzst_max_format_version() == PCAPZST_FORMAT_VERSION_MAX);
    last_error_is_empty_before_a_call_failed();
    every_status_has_a_message_of_its_own();
    a_number_that_is_no_status_has_a_message();
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: api FOLDER\n");
        return 2;
    }
    folder = arguments[1];
    /* Forked children must not write what is buffered a second time. */
    setvbuf(stdout, NULL, _IONBF, 0);
    test_versions_and_messages();
    test_opening();
    test_prefixes();
    test_reading();
    test_damage();
    test_batch();
    test_threads();
    test_records();
    test_following();
    test_writing();
    test_writer_refusals();
    test_names_of_writers();
    test_finishing();
    test_killed_writers();
    test_limits();
    return all_right() ? 0 : 1;
}
