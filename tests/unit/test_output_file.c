/* Files that appear only when they are whole, in a folder of their own. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output_file.h"
#include "support.h"

enum { PATH_BYTES = 4200 };

typedef struct folder {
    char path[PATH_BYTES], file[PATH_BYTES], other[PATH_BYTES];
} folder;

static folder open_folder(void) {
    folder f;
    snprintf(f.path, sizeof f.path, "%s", temporary_path("output"));
    assert_int_equal(mkdir(f.path, 0777), 0);
    snprintf(f.file, sizeof f.file, "%.4096s/file", f.path);
    snprintf(f.other, sizeof f.other, "%.4096s/other", f.path);
    return f;
}

static int n_files(const folder *f) {
    DIR *dir = opendir(f->path);
    int n = -2; /* . and .. */
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static void close_folder(folder *f) {
    remove(f->file);
    remove(f->other);
    assert_int_equal(rmdir(f->path), 0);
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect(const char *path, const char *text) {
    size_t size;
    char *data = (char *)read_whole(path, &size);
    data[size] = '\0';
    assert_string_equal(data, text);
    free(data);
}

static void test_appears_when_whole(void **state) {
    (void)state;
    folder f = open_folder();
    output_file *out;
    struct stat info;
    mode_t mask = umask(027);
    assert_ok(output_file_open(f.file, false, &out, err));
    fputs("new", out->to);
    assert_false(path_exists(f.file));
    assert_int_equal(n_files(&f), 1);
    assert_ok(output_file_commit(out, err));
    output_file_close(&out);
    assert_null(out);
    umask(mask);
    expect(f.file, "new");
    assert_int_equal(n_files(&f), 1);
    assert_int_equal(stat(f.file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    close_folder(&f);
}

static void test_given_up(void **state) {
    (void)state;
    folder f = open_folder();
    output_file *out;
    put(f.file, "old");
    assert_ok(output_file_open(f.file, true, &out, err));
    fputs("new", out->to);
    output_file_close(&out);
    expect(f.file, "old");
    assert_int_equal(n_files(&f), 1);
    output_file_close(&out);
    close_folder(&f);
}

static void test_replaces_only_when_asked_to(void **state) {
    (void)state;
    folder f = open_folder();
    for (int replace = 0; replace < 2; replace++) {
        output_file *out;
        sereno_error error = {0};
        put(f.file, "old");
        assert_ok(output_file_open(f.file, replace, &out, err));
        fputs("new", out->to);
        assert_int_equal(output_file_commit(out, &error), replace ? SERENO_OK : SERENO_ERR_IO);
        output_file_close(&out);
        expect(f.file, replace ? "new" : "old");
        assert_true(replace || strstr(error.message, "exists already"));
        assert_int_equal(n_files(&f), 1);
    }
    close_folder(&f);
}

/* Another run's unfinished file, or one that only looks like it, is nobody's to write over. */
static void test_temporary_names_are_new(void **state) {
    (void)state;
    folder f = open_folder();
    output_file *first, *second;
    assert_ok(output_file_open(f.file, true, &first, err));
    assert_ok(output_file_open(f.file, true, &second, err));
    fputs("first", first->to);
    fputs("second", second->to);
    assert_ok(output_file_commit(second, err));
    expect(f.file, "second");
    assert_ok(output_file_commit(first, err));
    expect(f.file, "first");
    output_file_close(&first);
    output_file_close(&second);
    assert_int_equal(n_files(&f), 1);
    close_folder(&f);
}

static void test_refuses_what_is_no_file(void **state) {
    (void)state;
    folder f = open_folder();
    char inside[PATH_BYTES + 8];
    put(f.file, "a file");
    snprintf(inside, sizeof inside, "%s/x", f.file);
    const struct {
        const char *path, *part;
    } cases[] = {{f.path, "not a regular file"},
                 {"/dev/null", "not a regular file"},
                 {inside, "Not a directory"},
                 {"/no/such/folder/x", "No such file"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        output_file *out;
        sereno_error error = {0};
        assert_int_equal(output_file_open(cases[i].path, true, &out, &error), SERENO_ERR_IO);
        assert_null(out);
        assert_non_null(strstr(error.message, cases[i].part));
        assert_non_null(strstr(error.message, cases[i].path));
    }
    assert_int_equal(n_files(&f), 1);
    close_folder(&f);
}

static void test_links(void **state) {
    (void)state;
    folder f = open_folder();
    assert_false(path_same_file(f.file, f.file)); /* there is none */
    put(f.file, "text");
    assert_true(path_same_file(f.file, f.file));
    assert_false(path_same_file(f.file, f.path));
    assert_int_equal(symlink("file", f.other), 0);
    assert_true(path_same_file(f.file, f.other));
    assert_int_equal(unlink(f.other), 0);
    assert_int_equal(link(f.file, f.other), 0);
    assert_true(path_same_file(f.file, f.other));
    assert_int_equal(unlink(f.other), 0);
    put(f.other, "text");
    assert_false(path_same_file(f.file, f.other));
    assert_int_equal(unlink(f.other), 0);
    assert_int_equal(symlink("nowhere", f.other), 0);
    assert_true(path_exists(f.other));
    close_folder(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appears_when_whole),          cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_replaces_only_when_asked_to), cmocka_unit_test(test_temporary_names_are_new),
        cmocka_unit_test(test_refuses_what_is_no_file),     cmocka_unit_test(test_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
