# cmake -DOUT=FILE -P profiles.cmake -- a.ini b.ini ...: writes the C file that shipped_profiles.h describes.
set(texts "")
set(rows "")
set(names "")
set(is_file FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  set(file "${CMAKE_ARGV${i}}")
  if(is_file)
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(................................)" "\\1\n    " hex "${hex}") # 16 bytes a line
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " hex "${hex}")
    string(APPEND texts "static const char text_${i}[] = {\n    ${hex}0x00};\n\n")
    string(APPEND rows "    {\"${name}\", text_${i}, sizeof text_${i} - 1},\n")
    string(APPEND names "\"${name}\", ")
  elseif(file STREQUAL "--")
    set(is_file TRUE)
  endif()
endforeach()
file(WRITE ${OUT} "/* Made from profiles/ *.ini by cmake/profiles.cmake. */
#include \"shipped_profiles.h\"

${texts}const shipped_profile shipped_profiles[] = {
${rows}    {0},
};

const char *const shipped_profile_names[] = {${names}NULL};
")
